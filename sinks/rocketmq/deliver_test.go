package rocketmq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// open returns a sink for the cluster; settings are in JSON, without braces.
func open(t *testing.T, c *cluster, settings ...string) *Sink {
	t.Helper()
	settings = append([]string{fmt.Sprintf(`"name_servers":[%q]`, c.names.address())}, settings...)
	s := openSink(t, json.RawMessage("{"+strings.Join(settings, ",")+"}"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openSink returns a sink that has as long to close as a machine may stand still.
func openSink(t testing.TB, config json.RawMessage) *Sink {
	t.Helper()
	sink, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	s := sink.(*Sink)
	s.closeTimeout = 30 * time.Second
	return s
}

// quick is for what never succeeds, brief for what must although a timeout comes
// first: it has room for that of a name server.
const (
	quick = `"send_timeout":"200ms"`
	brief = `"send_timeout":"3s"`
)

func message(n int, change ...func(*core.Message)) *core.Message {
	m := &core.Message{ID: fmt.Sprintf("id-%d", n), Topic: "T", Body: fmt.Appendf(nil, "body-%d", n), Attempt: 1,
		DeliverAt: time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)}
	for _, c := range change {
		c(m)
	}
	return m
}

func key(key string) func(*core.Message)     { return func(m *core.Message) { m.Key = []byte(key) } }
func topic(topic string) func(*core.Message) { return func(m *core.Message) { m.Topic = topic } }

func messages(n int, change ...func(*core.Message)) []*core.Message {
	batch := make([]*core.Message, n)
	for i := range batch {
		batch[i] = message(i, change...)
	}
	return batch
}

// classes are the results in words; a single error is one word.
func classes(err error) []string {
	results, ok := errors.AsType[core.BatchError](err)
	if !ok {
		results = core.BatchError{err}
	}
	var words []string
	for _, result := range results {
		if result == nil {
			words = append(words, "ok")
		} else {
			words = append(words, core.ClassOf(result).String())
		}
	}
	return words
}

func wantClasses(t *testing.T, err error, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, classes(err)); diff != "" {
		t.Errorf("results (-want +got):\n%s\nerror: %v", diff, err)
	}
}

func bodies(messages []stored) []string {
	var found []string
	for _, m := range messages {
		found = append(found, m.body)
	}
	return found
}

func TestDeliverMessageAsItIs(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	m := message(7, key("k"), func(m *core.Message) {
		m.Attempt = 3
		m.Body = []byte("\x00\xff binary")
		m.Headers = []core.Header{{Name: "x", Value: []byte("<ü&>")}, {Name: "DELAY", Value: []byte("3")},
			{Name: "TIMER_DELIVER_MS", Value: []byte("1")}, {Name: "__STARTDELIVERTIME", Value: []byte("1")}, {Name: "delay", Value: []byte("mine")}}
		m.Options = map[string]string{"tags": "red", "keys": "k1 k2", "retry.max_attempts": "3"}
	})
	if err := s.Deliver(t.Context(), []*core.Message{m}); err != nil {
		t.Fatal(err)
	}
	queue := int(javaHash("k")) % 4
	want := []stored{{"a", "T", queue, "\x00\xff binary", map[string]string{
		"x": "<ü&>", "delay": "mine", "TAGS": "red", "KEYS": "id-7 k1 k2", "SHARDING_KEY": "k", "__SHARDINGKEY": "k",
		"delaybridge-id": "id-7", "delaybridge-attempt": "3", "delaybridge-deliver-at": "2030-01-02T03:04:05.006Z"}}}
	if diff := cmp.Diff(want, c.stored(), cmp.AllowUnexported(stored{})); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// Of what a consumer publishes again, what the broker had added is not sent.
func TestDeliverPublishedAgain(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	m := message(7)
	for _, name := range []string{"x", "DELAY", "CLUSTER", "UNIQ_KEY", core.HeaderHop} {
		header(name, "1")(m)
	}
	if err := s.Deliver(t.Context(), []*core.Message{m}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x": "1", "KEYS": "id-7", "delaybridge-hop": "1",
		"delaybridge-id": "id-7", "delaybridge-attempt": "1", "delaybridge-deliver-at": "2030-01-02T03:04:05.006Z"}
	if diff := cmp.Diff(want, c.stored()[0].properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestDeliverOneRequestForEachQueueInOrder(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	var batch []*core.Message
	want := map[string][]string{}
	for n := range 300 {
		k := fmt.Sprint("key", n%30)
		batch = append(batch, message(n, key(k)))
		want[k] = append(want[k], fmt.Sprint("body-", n))
	}
	if err := s.Deliver(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	got, queueOf := map[string][]string{}, map[string]int{}
	for _, m := range c.stored() {
		k := m.properties["SHARDING_KEY"]
		got[k] = append(got[k], m.body)
		if q, seen := queueOf[k]; seen && q != m.queue {
			t.Errorf("key %s is in queues %d and %d", k, q, m.queue)
		}
		queueOf[k] = m.queue
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies by key (-want +got):\n%s", diff)
	}
	if n := len(c.brokers["a"].seen()); n != 4 {
		t.Errorf("%d requests for 4 queues", n)
	}
}

func TestDeliverSplitsBySize(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c, `"max_batch_bytes":2000`)
	batch := messages(20, key("k"), func(m *core.Message) { m.Body = append(m.Body, make([]byte, 400)...) })
	batch[3].Body = make([]byte, 3000) // travels alone
	if err := s.Deliver(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for n, m := range c.stored() {
		if m.body != string(batch[n].Body) {
			t.Errorf("message %d is out of order", n)
		}
	}
	for _, r := range c.brokers["a"].seen() {
		if total := len(strings.Join(bodies(r.parts), "")); total > 2000 && len(r.parts) > 1 {
			t.Errorf("a request has %d messages of %d bytes", len(r.parts), total)
		}
	}
}

func TestDeliverWithoutKeyUsesAllQueues(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	for n := range 8 {
		if err := s.Deliver(t.Context(), []*core.Message{message(n)}); err != nil {
			t.Fatal(err)
		}
	}
	count := map[int]int{}
	for _, m := range c.stored() {
		count[m.queue]++
	}
	if diff := cmp.Diff(map[int]int{0: 2, 1: 2, 2: 2, 3: 2}, count); diff != "" {
		t.Errorf("messages by queue (-want +got):\n%s", diff)
	}
}

func TestDeliverWithNamespace(t *testing.T) {
	c := newCluster(t, "a")
	c.setTopic("ns%T", 1)
	s := open(t, c, `"namespace":"ns"`)
	for range 2 { // the client library would prefix a message again
		if err := s.Deliver(t.Context(), messages(2)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.stored() {
		if m.topic != "ns%T" {
			t.Errorf("topic %q", m.topic)
		}
	}
}

// A batch is refused as a whole for one message: the others arrive once each.
func TestDeliverIsolatesIllegalMessage(t *testing.T) {
	c := newCluster(t, "a")
	c.brokers["a"].setPlan(func(s sent) action {
		if slices.Contains(bodies(s.parts), "body-13") {
			return action{code: rocketmq.CodeIllegal, remark: "the message is illegal", refuse: true}
		}
		return action{}
	})
	s := open(t, c)
	err := s.Deliver(t.Context(), messages(50, key("k")))
	want := make([]string, 50)
	var wantBodies []string
	for n := range want {
		want[n] = "ok"
		if n != 13 {
			wantBodies = append(wantBodies, fmt.Sprint("body-", n))
		}
	}
	want[13] = "permanent"
	wantClasses(t, err, want...)
	if diff := cmp.Diff(wantBodies, bodies(c.stored())); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestDeliverRefusesBadMessageAlone(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c, `"max_message_bytes":65536`)
	batch := messages(4)
	batch[0].Topic = "no.dots"
	batch[2].Body = make([]byte, 65536)
	err := s.Deliver(t.Context(), batch)
	wantClasses(t, err, "permanent", "ok", "permanent", "ok")
	if diff := cmp.Diff([]string{"body-1", "body-3"}, bodies(c.stored())); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
