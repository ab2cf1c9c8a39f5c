//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(plugintest.Main(servers.Main(m), definition()))
}

// broker is a real ActiveMQ with a user who may do everything and one who may
// use only the queues below suite, and those below fixed if they exist.
type broker struct {
	*servers.ActiveMQServer
	queues atomic.Int32
}

func startBroker(t testing.TB) *broker {
	return &broker{ActiveMQServer: servers.ActiveMQ(t, servers.ActiveMQOptions{TLS: true, Users: []servers.ActiveMQUser{
		{Name: "all", Password: "secret", Uses: []string{">"}, Makes: []string{">"}},
		{Name: "suite", Password: "se:cr\\et", Uses: []string{"suite.>", "fixed.>"}, Makes: []string{"suite.>"}},
	}})}
}

func (b *broker) queue(prefix string) string { return fmt.Sprint(prefix, b.queues.Add(1)) }

// consume takes messages from a queue.
func (b *broker) consume(t testing.TB, queue string) sinktest.Reader {
	messages := b.subscribe(t, queue)
	return func(ctx context.Context) (sinktest.Received, error) {
		select {
		case m, ok := <-messages:
			if !ok || m.Err != nil {
				return sinktest.Received{}, fmt.Errorf("consumer of %s was ended: %w", queue, m.Err)
			}
			return received(m.Header, m.Body), nil
		case <-ctx.Done():
			return sinktest.Received{}, ctx.Err()
		}
	}
}

func (b *broker) subscribe(t testing.TB, queue string, options ...func(*frame.Frame) error) <-chan *stomp.Message {
	t.Helper()
	conn, err := stomp.Dial("tcp", b.Addr(), stomp.ConnOpt.Logger(silent{}), stomp.ConnOpt.Login("all", "secret"), stomp.ConnOpt.HeartBeat(0, 0),
		stomp.ConnOpt.ReadBufferSize(128<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.MustDisconnect() })
	options = append(options, stomp.SubscribeOpt.Header("activemq.prefetchSize", "1000"))
	s, err := conn.Subscribe("/queue/"+queue, stomp.AckAuto, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s.C
}

// silent drops what the client says about connections that tests end.
type silent struct{}

func (silent) Debugf(string, ...any)   {}
func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}
func (silent) Errorf(string, ...any)   {}
func (silent) Debug(string)            {}
func (silent) Info(string)             {}
func (silent) Warning(string)          {}
func (silent) Error(string)            {}

// received leaves out what is the broker's own.
func received(h *frame.Header, body []byte) sinktest.Received {
	r := sinktest.Received{Body: body}
	for i := range h.Len() {
		if name, value := h.GetAt(i); !slices.Contains(taken, name) {
			r.Headers = append(r.Headers, core.Header{Name: name, Value: []byte(value)})
		}
	}
	return r
}

const kitMaxBody = 100_000

func (b *broker) config(address, login, passcode string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"address": address, "login": login, "passcode": passcode,
		"max_body_bytes": kitMaxBody, "dial_timeout": "2s"})
	return raw
}

func (b *broker) kit(t testing.TB, opener func(testing.TB, json.RawMessage) core.Sink) sinktest.Kit {
	wire := sinktest.NewWire(t)
	openAs := func(login, passcode string) func(testing.TB) core.Sink {
		return func(t testing.TB) core.Sink { return opener(t, b.config(wire.Addr(t, b.Addr()), login, passcode)) }
	}
	faults := wire.Faults()
	faults.Restart = func(testing.TB) { b.Kill(); b.Start() }
	limited := openAs("suite", "se:cr\\et")
	return sinktest.Kit{
		Open:     openAs("all", "secret"),
		NewTopic: func(testing.TB) string { return b.queue("suite.") },
		Consume:  b.consume,
		Can:      []sinktest.Capability{sinktest.Headers, sinktest.EmptyBody, sinktest.Ordered},
		MaxBody:  kitMaxBody,
		Delays: []core.Header{{Name: "AMQ_SCHEDULED_DELAY", Value: []byte("60000")}, {Name: "AMQ_SCHEDULED_CRON", Value: []byte("0 * * * *")},
			{Name: "AMQ_SCHEDULED_PERIOD", Value: []byte("1000")}, {Name: "AMQ_SCHEDULED_REPEAT", Value: []byte("9")}},
		Hostile:      hostile(),
		MissingTopic: &sinktest.Refusal{Open: limited, Topic: func(testing.TB) string { return b.queue("fixed.") }, Class: core.TopicBlocked},
		NoRights:     &sinktest.Refusal{Open: limited, Topic: func(testing.TB) string { return b.queue("forbidden.") }, Class: core.TopicBlocked},
		LoginRefused: &sinktest.Refusal{Open: openAs("suite", "wrong"), Class: core.Blocked},
		Faults:       faults,
	}
}

// hostile are messages with what only ActiveMQ or STOMP give a meaning.
func hostile() []*core.Message {
	messages := []*core.Message{{Topic: "suite.a,suite.b"}, {Topic: "suite.>"}, {Topic: "suite.*"}, {Topic: "topic://suite.a"},
		{Topic: "suite.a?consumer.exclusive=true"}, {Topic: "ActiveMQ.Advisory.Queue"}, {Topic: " suite.a "}, {Topic: "DLQ.a"}}
	for _, name := range append(slices.Clone(taken), "JMSXGroupID", "JMSExpiration", "JMSReplyTo", "JMSDeliveryMode") {
		messages = append(messages, &core.Message{Headers: []core.Header{{Name: name, Value: []byte("1")}}})
	}
	escapes := strings.Repeat(":", maxHeaderLine/2+1)
	return append(messages, &core.Message{Headers: []core.Header{{Name: "escapes", Value: []byte(escapes)}}})
}

func TestConformance(t *testing.T) {
	b := startBroker(t)
	t.Run("in process", func(t *testing.T) {
		sinktest.Run(t, b.kit(t, opened))
	})
	t.Run("as plugin", func(t *testing.T) {
		kit := b.kit(t, func(t testing.TB, config json.RawMessage) core.Sink { return plugintest.Open(t, "activemq", config) })
		kit.Rounds = 10 // each starts a process
		sinktest.Run(t, kit)
	})
	t.Run("TLS", func(t *testing.T) { overTLS(t, b) })
	t.Run("key is the group", func(t *testing.T) { keyIsGroup(t, b) })
	t.Run("JMS headers", func(t *testing.T) { jmsHeaders(t, b) })
}

func opened(t testing.TB, config json.RawMessage) core.Sink {
	t.Helper()
	s, err := open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func message(topic string) *core.Message {
	now := time.Now()
	return &core.Message{ID: core.NewIDs().New(0, now), Topic: topic, Body: []byte("body"), DeliverAt: now, Attempt: 1}
}

func overTLS(t *testing.T, b *broker) {
	deliver := func(tls string) error {
		sink := opened(t, fmt.Appendf(nil, `{"address":%q,"login":"all","passcode":"secret","tls":%s}`, b.TLSAddr(), tls))
		defer sink.Close()
		return sink.Deliver(t.Context(), []*core.Message{message("suite.tls")})
	}
	if err := deliver(fmt.Sprintf(`{"ca":%q}`, b.CA())); err != nil {
		t.Errorf("with the broker's certificate: %v", err)
	}
	for _, tls := range []string{`{}`, fmt.Sprintf(`{"ca":%q,"server_name":"elsewhere"}`, b.CA())} {
		if err := deliver(tls); core.ClassOf(err) != core.Blocked {
			t.Errorf("with %s: %v, want blocked", tls, err)
		}
	}
	select {
	case m := <-b.subscribe(t, "suite.tls"):
		if string(m.Body) != "body" {
			t.Errorf("received %q", m.Body)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing came")
	}
}

// keyIsGroup: STOMP does not show JMSXGroupID to consumers, but selects by it.
func keyIsGroup(t *testing.T, b *broker) {
	sink := opened(t, b.config(b.Addr(), "all", "secret"))
	defer sink.Close()
	batch := []*core.Message{message("suite.groups"), message("suite.groups"), message("suite.groups")}
	batch[0].Key, batch[1].Key = []byte("a:1"), []byte("b")
	if err := sink.Deliver(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{"JMSXGroupID = 'a:1'": batch[0].ID, "JMSXGroupID = 'b'": batch[1].ID, "JMSXGroupID IS NULL": batch[2].ID} {
		select {
		case m := <-b.subscribe(t, "suite.groups", stomp.SubscribeOpt.Header("selector", selector)):
			if got := m.Header.Get(core.HeaderID); got != want {
				t.Errorf("%s gets %s, want %s", selector, got, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s gets nothing", selector)
		}
	}
}

func jmsHeaders(t *testing.T, b *broker) {
	sink := opened(t, b.config(b.Addr(), "all", "secret"))
	defer sink.Close()
	m := message("suite.jms")
	m.Headers = []core.Header{{Name: "correlation-id", Value: []byte("c:1")}, {Name: "type", Value: []byte("t")}}
	if err := sink.Deliver(t.Context(), []*core.Message{m}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-b.subscribe(t, "suite.jms", stomp.SubscribeOpt.Header("selector", "JMSCorrelationID = 'c:1' AND JMSType = 't'")):
		if got.Header.Get("correlation-id") != "c:1" || got.Header.Get("persistent") != "true" {
			t.Errorf("received %v", got.Header)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing came")
	}
}

func TestConfigFaults(t *testing.T) {
	tests := []struct {
		config string
		fields []string
	}{
		{`{}`, []string{"address"}},
		{`{"address":"a:1","login":"x\ny","destination":"both","connections":0,"max_body_bytes":-1,"dial_timeout":"soon"}`,
			[]string{"login", "destination", "connections", "max_body_bytes", "dial_timeout"}},
		{`{"address":"a:1","tls":{"ca":"/no/such/file"}}`, []string{"tls.ca"}},
		{`{"address":1}`, []string{"address"}}, {`{"port":1}`, []string{"port"}}, {`[]`, []string{"config"}},
		{`{"address":"a:1","tls":{"cas":1}}`, []string{"cas"}},
	}
	for _, tt := range tests {
		_, err := open(t.Context(), json.RawMessage(tt.config))
		var fields []string
		for _, one := range split(err) {
			invalid, ok := errors.AsType[*core.InvalidError](one)
			if !ok {
				t.Fatalf("%s: %v is not an InvalidError", tt.config, one)
			}
			fields = append(fields, invalid.Field)
		}
		if diff := cmp.Diff(tt.fields, fields); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", tt.config, diff)
		}
	}
}

func split(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	return []error{err}
}

// TestHalfWritten: what was not written whole can't have been sent.
func TestHalfWritten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // logs in, reads the beginning, and then cuts the connection
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Read(make([]byte, 1024))
		fmt.Fprint(conn, "CONNECTED\nversion:1.2\n\n\x00")
		io.ReadFull(conn, make([]byte, 4096))
		conn.(*net.TCPConn).SetLinger(0)
	}()
	sink := opened(t, fmt.Appendf(nil, `{"address":%q,"connections":1,"max_body_bytes":16777216}`, listener.Addr().String()))
	defer sink.Close()
	batch := []*core.Message{message("a"), message("a"), message("a")}
	batch[1].Body = make([]byte, 16<<20) // more than sockets hold
	err = sink.Deliver(t.Context(), batch)
	results, ok := errors.AsType[core.BatchError](err)
	if !ok {
		t.Fatalf("Deliver = %v, want a result for each", err)
	}
	for i, want := range []core.Class{core.Unknown, core.Retry, core.Retry} {
		if results[i] == nil || core.ClassOf(results[i]) != want {
			t.Errorf("message %d: %v, want class %s", i, results[i], want)
		}
	}
}
