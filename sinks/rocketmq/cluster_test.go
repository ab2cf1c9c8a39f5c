package rocketmq

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// cluster is a name server and brokers in this process, with faults on demand.
type cluster struct {
	names   *server
	brokers map[string]*broker

	mu     sync.Mutex
	topics map[string]int // queues on each broker
}

// broker stores what it is sent, unless its plan says otherwise.
type broker struct {
	*server
	record   sync.Mutex // guards what follows
	plan     func(sent) action
	requests []sent
	stored   []stored
}

// sent is one request to send; stored is one message of it.
type sent struct {
	topic string
	queue int
	parts []stored
}

type stored struct {
	broker     string
	topic      string
	queue      int
	body       string
	properties map[string]string
}

// action is what a broker does with a request; the zero value is to store the
// messages and confirm.
type action struct {
	code   int // of the reply
	remark string
	refuse bool // don't store
	silent bool // don't reply
	cut    bool // close the connection instead of a reply
}

func newCluster(t *testing.T, brokers ...string) *cluster {
	c := &cluster{brokers: map[string]*broker{}, topics: map[string]int{"T": 4}}
	for _, name := range brokers {
		b := &broker{}
		b.server = serve(t, "127.0.0.1:0", func(conn net.Conn, request rocketmq.Command) bool { return b.answer(name, conn, request) })
		c.brokers[name] = b
	}
	c.names = serve(t, "127.0.0.1:0", c.answer)
	return c
}

// forgetBrokers is what name servers do when brokers are gone.
func (c *cluster) forgetBrokers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokers, c.topics = nil, nil
}

func (c *cluster) setTopic(topic string, queues int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[topic] = queues
}

// server reads frames and has them answered, until the test ends.
type server struct {
	listener net.Listener
	answer   func(net.Conn, rocketmq.Command) bool // false closes the connection
	mu       sync.Mutex
	conns    map[net.Conn]bool
	muted    chan struct{}     // not nil: nothing is read until it is closed
	frozen   map[net.Conn]bool // nothing is read from these until muted is closed
	group    sync.WaitGroup
}

func serve(t *testing.T, address string, answer func(net.Conn, rocketmq.Command) bool) *server {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: listener, answer: answer, conns: map[net.Conn]bool{}}
	s.group.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *server) address() string { return s.listener.Addr().String() }

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.group.Go(func() { s.read(conn) })
	}
}

// connections counts those that are open.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) read(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	for {
		s.held(conn)
		request, err := rocketmq.ReadCommand(conn)
		if err != nil || !s.answer(conn, *request) {
			return
		}
	}
}

// stop refuses new connections and closes the old.
func (s *server) stop() {
	s.listener.Close()
	s.cut()
	s.group.Wait()
}

func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

// held waits while the server, or this connection of it, is muted.
func (s *server) held(conn net.Conn) {
	s.mu.Lock()
	muted := s.muted
	if s.frozen != nil && !s.frozen[conn] {
		muted = nil
	}
	s.mu.Unlock()
	if muted != nil {
		<-muted
	}
}

// freeze is mute for the connections of the moment only, as if the network had
// forgotten them.
func (s *server) freeze(t *testing.T) {
	s.mute(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = maps.Clone(s.conns)
}

// mute has the server stop reading, as a process that was stopped; the result
// has it go on.
func (s *server) mute(t *testing.T) (unmute func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	muted := make(chan struct{})
	s.muted = muted
	unmute = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.muted = nil
		close(muted)
	})
	t.Cleanup(unmute)
	return unmute
}

func reply(conn net.Conn, request rocketmq.Command, code int, remark string, body []byte) {
	answer := rocketmq.Command{Code: code, Language: "JAVA", Opaque: request.Opaque, Flag: rocketmq.FlagReply, Remark: remark,
		Fields: map[string]string{"queueId": "0", "queueOffset": "0", "msgId": "m"}, Body: body}
	if frame, err := answer.Append(nil); err == nil {
		conn.Write(frame)
	}
}

// answer is the name server's.
func (c *cluster) answer(conn net.Conn, request rocketmq.Command) bool {
	c.names.held(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch topic := request.Fields["topic"]; request.Code {
	case rocketmq.RequestRoute:
		if body := c.route(topic); body != nil {
			reply(conn, request, rocketmq.CodeOK, "", body)
		} else {
			reply(conn, request, rocketmq.CodeNoTopic, "No topic route info in name server for the topic: "+topic, nil)
		}
	case rocketmq.RequestBrokers:
		var table []string
		for name, b := range c.brokers {
			table = append(table, fmt.Sprintf(`%q:{"brokerAddrs":{0:%q},"brokerName":%q,"cluster":"c"}`, name, b.address(), name))
		}
		reply(conn, request, rocketmq.CodeOK, "", []byte(`{"brokerAddrTable":{`+strings.Join(table, ",")+`},"clusterAddrTable":{}}`))
	}
	return true
}

func (c *cluster) route(topic string) []byte {
	queues, ok := c.topics[topic]
	if !ok {
		return nil
	}
	type queueData struct {
		BrokerName     string `json:"brokerName"`
		ReadQueueNums  int    `json:"readQueueNums"`
		WriteQueueNums int    `json:"writeQueueNums"`
		Perm           int    `json:"perm"`
	}
	type brokerData struct {
		BrokerName  string            `json:"brokerName"`
		BrokerAddrs map[string]string `json:"brokerAddrs"`
	}
	var data struct {
		QueueDatas  []queueData  `json:"queueDatas"`
		BrokerDatas []brokerData `json:"brokerDatas"`
	}
	for _, name := range slices.Sorted(maps.Keys(c.brokers)) {
		data.QueueDatas = append(data.QueueDatas, queueData{name, queues, queues, 6})
		data.BrokerDatas = append(data.BrokerDatas, brokerData{name, map[string]string{"0": c.brokers[name].address()}})
	}
	body, _ := json.Marshal(data)
	return body
}

// answer is the broker's.
func (b *broker) answer(name string, conn net.Conn, request rocketmq.Command) bool {
	b.held(conn)
	if request.Code != rocketmq.RequestSendBatch {
		reply(conn, request, rocketmq.CodeOK, "", nil)
		return true
	}
	s := readSent(name, request)
	b.record.Lock()
	b.requests = append(b.requests, s)
	var do action
	if b.plan != nil {
		do = b.plan(s)
	}
	if !do.refuse {
		b.stored = append(b.stored, s.parts...)
	}
	b.record.Unlock()
	if !do.silent && !do.cut {
		reply(conn, request, do.code, do.remark, nil)
	}
	return !do.cut
}

func (b *broker) setPlan(plan func(sent) action) {
	b.record.Lock()
	defer b.record.Unlock()
	b.plan = plan
}

func (b *broker) always(do action) { b.setPlan(func(sent) action { return do }) }

func (b *broker) seen() []sent {
	b.record.Lock()
	defer b.record.Unlock()
	return slices.Clone(b.requests)
}

// stored returns what all brokers have, those of a broker in order.
func (c *cluster) stored() []stored {
	var all []stored
	for _, name := range slices.Sorted(maps.Keys(c.brokers)) {
		b := c.brokers[name]
		b.record.Lock()
		all = append(all, b.stored...)
		b.record.Unlock()
	}
	return all
}

func readSent(broker string, request rocketmq.Command) sent {
	fields := request.Fields
	queue, _ := strconv.Atoi(fields["e"])
	s := sent{topic: fields["b"], queue: queue}
	for rest := request.Body; len(rest) > 0; {
		size := binary.BigEndian.Uint32(rest)
		one := rest[16:size]
		body := one[4 : 4+binary.BigEndian.Uint32(one)]
		properties := one[4+len(body)+2:]
		s.parts = append(s.parts, stored{broker, s.topic, queue, string(body), readProperties(string(properties))})
		rest = rest[size:]
	}
	return s
}

func readProperties(text string) map[string]string {
	properties := map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(text, "\x02"), "\x02") {
		name, value, _ := strings.Cut(pair, "\x01")
		properties[name] = value
	}
	return properties
}
