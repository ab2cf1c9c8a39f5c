//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestBrokersGetEverything sends messages of all shapes that a broker can carry
// through the binary, from HTTP to an ordinary consumer.
func TestBrokersGetEverything(t *testing.T) {
	const many, fewer = 20_000, 4_000
	tests := []struct {
		name  string
		start func(*testing.T) *target
		n     int
	}{
		{"kafka " + servers.Kafka4, func(t *testing.T) *target { return kafkaTarget(t, servers.Kafka4) }, many},
		{"kafka " + servers.Kafka3, func(t *testing.T) *target { return kafkaTarget(t, servers.Kafka3) }, fewer},
		{"rocketmq " + servers.RocketMQ5, func(t *testing.T) *target { return rocketTarget(t, servers.RocketMQ5) }, many},
		{"rocketmq " + servers.RocketMQ4, func(t *testing.T) *target { return rocketTarget(t, servers.RocketMQ4) }, fewer},
		{"rabbitmq", rabbitTarget, many},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() {
				test.n /= 10
			}
			getsEverything(t, test.start(t), test.n)
		})
	}
}

func getsEverything(t *testing.T, g *target, n int) {
	t.Helper()
	arrivals := g.consume(t)
	bridge := serve(t, bridgeConfig(t, map[string]*target{"broker": g}), output(t))
	l := newLedger(g)
	l.post(t, bridge, g.mixed("first", 1, time.Now()))
	l.gather(t, arrivals, gatherIn) // now the consumer is there
	posted := l.postAhead(t, bridge, n)
	l.gather(t, arrivals, gatherIn)
	troubled := bridge.stats("broker").Done
	bridge.stop()
	l.gatherRest(t, arrivals)
	l.resolveLate()
	l.check(t)
	l.checkOnce(t, troubled.Retried+troubled.Unknown)
	l.checkOrder(t, posted)
	late := l.lateness("m")
	t.Logf("%d messages, lateness at the consumer: p50 %s, p99 %s, max %s", len(late), quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1))
}

// postAhead has the bridge accept n messages, and returns when. Of those that are
// due later the order is sure; if a busy machine took so long that some are not,
// it adds a smaller lot with more time.
func (l *ledger) postAhead(t *testing.T, bridge *instance, n int) (posted time.Time) {
	t.Helper()
	lead := time.Second + time.Duration(n)*time.Second/2000
	for lot := 1; ; lot++ {
		began := time.Now()
		from := began.Add(lead)
		l.post(t, bridge, l.target.mixed(fmt.Sprintf("m%d", lot), n, from))
		if posted = time.Now(); posted.Before(from) {
			return posted
		}
		t.Logf("it took %s to post %d messages, not %s", posted.Sub(began), n, lead)
		n, lead = n/4+1, 2*posted.Sub(began)
	}
}

// gatherIn is for a broker on a busy machine, and a consumer that gets its share
// of the queues after some rounds.
const gatherIn = 5 * time.Minute

// bridgeConfig is a configuration with a Redis of its own. YAML takes JSON.
func bridgeConfig(t *testing.T, targets map[string]*target) string {
	t.Helper()
	return bridgeConfigOn(t, servers.Redis(t, servers.RedisOptions{}), targets)
}

// bridgeConfigOn has an instance keep its buckets though it stands still for long.
func bridgeConfigOn(t *testing.T, redis *servers.RedisServer, targets map[string]*target) string {
	t.Helper()
	sinks := map[string]any{}
	for name, g := range targets {
		sinks[name] = map[string]any{"type": g.kind, "config": g.config,
			"retry": map[string]any{"initial": "200ms", "max": "1s", "max_attempts": 1000}}
	}
	text, err := json.Marshal(map[string]any{
		"store": map[string]any{"redis": map[string]any{"url": redis.URL()}, "lease": "30s"},
		"http":  map[string]any{"listen": "127.0.0.1:0"},
		// What is too large is for the sinks to say here.
		"limits": map[string]any{"max_body": "32MiB", "max_batch_bytes": "64MiB"},
		"sinks":  sinks,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mixed makes n messages whose ids begin with prefix, due within five seconds
// from the given time, in random order.
func (g *target) mixed(prefix string, n int, from time.Time) []accepted {
	const keys, span = 200, 5 * time.Second
	messages := make([]accepted, n)
	dues := make([]time.Duration, n)
	for i := range dues {
		dues[i] = rand.N(span)
	}
	slices.Sort(dues)
	for i := range messages {
		headers := g.someHeaders()
		messages[i] = accepted{headers: headers, entry: entry{ID: fmt.Sprintf("%s-%d", prefix, i), Sink: "broker", Topic: g.topic,
			Key: g.key(rand.IntN(keys)), Body: someBytes(400), Headers: headerEntries(headers),
			DeliverAt: from.Add(dues[i]).UTC().Format(core.TimeFormat)}}
	}
	rand.Shuffle(n, func(a, b int) { messages[a], messages[b] = messages[b], messages[a] })
	return messages
}

func (g *target) key(n int) []byte {
	if g.lacks(noBinary) {
		return fmt.Appendf(nil, "key-%d", n)
	}
	return []byte{0xff, 0, byte(n), '\n', 0x80}
}

// someHeaders are of every kind that the target can carry.
func (g *target) someHeaders() []core.Header {
	headers := []core.Header{{Name: "trace", Value: fmt.Appendf(nil, "%x", rand.Uint64())}, {Name: "content-type", Value: []byte("text/plain; charset=utf-8")}}
	if !g.lacks(noBinary) {
		headers = append(headers, core.Header{Name: "binary", Value: append([]byte{0xff, 0}, someBytes(20)...)})
	}
	if !g.lacks(noNulls) {
		headers = append(headers, core.Header{Name: "null"}, core.Header{Name: "empty", Value: []byte{}})
	}
	if !g.lacks(noRepeats) {
		headers = append(headers, core.Header{Name: "trace", Value: []byte("again")}, core.Header{Name: "a", Value: []byte("last")})
	}
	return headers
}

// someBytes are up to max, or none.
func someBytes(max int) []byte {
	some := make([]byte, rand.IntN(max+1))
	for i := range some {
		some[i] = byte(rand.Uint32())
	}
	return some
}

// post has the bridge accept all messages, over several connections.
func (l *ledger) post(t *testing.T, bridge *instance, messages []accepted) {
	t.Helper()
	const batch, connections = 500, 4
	batches := slices.Collect(slices.Chunk(messages, batch))
	answers := make([][]receipt, len(batches))
	errs := make([]error, len(batches))
	sent := time.Now()
	var group sync.WaitGroup
	for first := range connections {
		group.Go(func() {
			for n := first; n < len(batches); n += connections {
				answers[n], errs[n] = bridge.insist(entries(batches[n]))
			}
		})
	}
	group.Wait()
	for n, batch := range batches {
		if errs[n] != nil {
			t.Fatal(errs[n])
		}
		l.accept(t, batch, answers[n], sent)
	}
}

func entries(messages []accepted) []entry {
	list := make([]entry, len(messages))
	for i, m := range messages {
		list[i] = m.entry
	}
	return list
}

func (l *ledger) accept(t *testing.T, messages []accepted, receipts []receipt, sent time.Time) {
	t.Helper()
	for i, m := range messages {
		if !receipts[i].accepted() {
			t.Fatalf("%s was refused: %+v", m.ID, receipts[i])
		}
		if err := m.take(receipts[i], sent); err != nil {
			t.Fatal(err)
		}
		l.accepted[m.ID] = m
	}
}

// take notes what a receipt says. It does not say when a message was due that has
// been delivered before the answer to another try.
func (m *accepted) take(r receipt, sent time.Time) (err error) {
	if m.deliverAt = r.DeliverAt; m.deliverAt.IsZero() {
		m.unsure = true
		m.deliverAt, err = m.dueFrom(sent)
	}
	return err
}

// output is a file for what console sinks print.
func output(t *testing.T) *os.File {
	t.Helper()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "delivered"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}
