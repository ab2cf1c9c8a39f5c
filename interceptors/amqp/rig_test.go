//go:build unix

package amqpsource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/servers"
	amqpsink "github.com/delaybridge/delaybridge/sinks/amqp"
)

// rig is a RabbitMQ with names of its own, and a store that tells what is parked.
type rig struct {
	*servers.RabbitMQServer
	t       testing.TB
	channel *amqp091.Channel // of the tests' own
	store   *spyStore
	name    string
}

var rigs atomic.Int64

func newRig(t testing.TB) *rig { return rigOf(t, servers.SharedRabbitMQ(t)) }

func rigOf(t testing.TB, server *servers.RabbitMQServer) *rig {
	t.Helper()
	r := &rig{RabbitMQServer: server, t: t, store: newSpyStore(), name: fmt.Sprintf("t%d-%d", time.Now().UnixMilli(), rigs.Add(1))}
	r.channel = r.open(server.URL())
	return r
}

func (r *rig) open(url string) *amqp091.Channel {
	r.t.Helper()
	connection, err := amqp091.Dial(url)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	r.t.Cleanup(func() { connection.Close() })
	channel, err := connection.Channel()
	if err != nil {
		r.t.Fatalf("open a channel: %v", err)
	}
	if err := channel.Confirm(false); err != nil {
		r.t.Fatal(err)
	}
	return channel
}

// queue declares a durable queue whose name ends in suffix.
func (r *rig) queue(suffix string, arguments amqp091.Table) string {
	r.t.Helper()
	if _, err := r.channel.QueueDeclare(r.name+suffix, true, false, false, false, arguments); err != nil {
		r.t.Fatal(err)
	}
	return r.name + suffix
}

// publish publishes to a queue and waits for the confirm.
func (r *rig) publish(queue string, messages ...amqp091.Publishing) {
	r.t.Helper()
	confirms := make([]*amqp091.DeferredConfirmation, len(messages))
	for n, m := range messages {
		var err error
		if confirms[n], err = r.channel.PublishWithDeferredConfirm("", queue, true, false, m); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, confirm := range confirms {
		if !confirm.Wait() {
			r.t.Fatal("not confirmed")
		}
	}
}

// delayed is a message with an ID and headers, name and value in turn.
func delayed(id, body string, headers ...any) amqp091.Publishing {
	p := amqp091.Publishing{MessageId: id, Body: []byte(body), Headers: amqp091.Table{}, DeliveryMode: amqp091.Persistent}
	for n := 0; n < len(headers); n += 2 {
		p.Headers[headers[n].(string)] = headers[n+1]
	}
	return p
}

// numbered are delayed messages with the IDs and bodies from to to-1.
func numbered(from, to int) []amqp091.Publishing {
	var all []amqp091.Publishing
	for n := from; n < to; n++ {
		all = append(all, delayed("m"+strconv.Itoa(n), strconv.Itoa(n), "x-delay", int32(3_600_000)))
	}
	return all
}

// take returns the next message of a queue, which must come soon.
func (r *rig) take(channel *amqp091.Channel, queue string) amqp091.Delivery {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		d, ok, err := channel.Get(queue, true)
		if err != nil {
			r.t.Fatalf("get from %s: %v", queue, err)
		}
		if ok {
			return d
		}
	}
	r.t.Fatalf("nothing came to %s", queue)
	return amqp091.Delivery{}
}

// ready is how many messages a queue has that nobody holds.
func (r *rig) ready(queue string) int {
	r.t.Helper()
	q, err := r.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return q.Messages
}

// source makes a source that parks for the sink "out" and the topic "orders",
// unless more says otherwise.
func (r *rig) source(more map[string]any) *Source {
	r.t.Helper()
	made, err := New("src", r.config(more), r.interceptor(nil), r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func (r *rig) config(more map[string]any) json.RawMessage {
	r.t.Helper()
	c := map[string]any{"urls": []string{r.URL()}, "sink": "out", "dial_timeout": "5s"}
	if more["queues"] != nil {
		c["topic"] = "orders"
	}
	maps.Copy(c, more)
	if c["reject_queue"] == nil && c["reject_exchange"] == nil && c["on_bad_record"] == nil {
		c["on_bad_record"] = "stop"
	}
	raw, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return raw
}

func (r *rig) interceptor(out core.Sink) *core.Interceptor {
	return core.NewInterceptor(r.store, core.Limits{}, &core.Dispatcher{Name: "out", Sink: out}, &core.Dispatcher{Name: "other"})
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{r.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// running is a source at work.
type running struct {
	*Source
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run, when ended is closed
}

func (r *rig) run(i *Source) *running {
	ctx, cancel := context.WithCancel(context.Background())
	made := &running{Source: i, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(made.ended)
		made.err = i.Run(ctx)
	}()
	r.t.Cleanup(func() { made.stop() })
	return made
}

// stop ends a source and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}

// bridge runs a whole bridge until the test ends: a source, a store in memory,
// and an AMQP sink that is called "out".
func (r *rig) bridge(sink, more map[string]any) {
	r.t.Helper()
	c := map[string]any{"urls": []string{r.URL()}}
	maps.Copy(c, sink)
	raw, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := amqpsink.Open(r.t.Context(), raw)
	if err != nil {
		r.t.Fatal(err)
	}
	store, dispatcher := memstore.New(memstore.Config{}), &core.Dispatcher{Name: "out", Sink: out}
	config, _, err := decode(r.config(more))
	if err != nil {
		r.t.Fatal(err)
	}
	src, err := New("src", r.config(more), core.NewInterceptor(store, core.Limits{}, dispatcher), r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	bridge := &core.Bridge{Store: store, Sinks: []*core.Dispatcher{dispatcher}, Inputs: []core.Input{{Name: "source", Run: src.Run}}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("run the bridge: %v", err)
		}
	})
	for _, e := range src.settings.exchanges { // programs come when all is there
		r.awaitExchange(config.URLs[0], e.queue)
	}
}

// awaitExchange waits until the source has declared what it reads from.
func (r *rig) awaitExchange(url, queue string) {
	r.t.Helper()
	for range 1000 {
		channel := r.open(url)
		if q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil && q.Consumers > 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.t.Fatalf("%s is not there", queue)
}

// through is a URL of the server with another host:port.
func (r *rig) through(addr string) string {
	r.t.Helper()
	u, err := url.Parse(r.URL())
	if err != nil {
		r.t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// spyStore is a store in memory that tells what it has been given.
type spyStore struct {
	*memstore.Store
	mu         sync.Mutex
	parked     []*core.Message // new ones, in order
	duplicates int
	fail       error  // instead of parking, while it is set
	failed     int    // calls
	after      func() // each Park, before it returns
	changed    *sync.Cond
}

func newSpyStore() *spyStore {
	s := &spyStore{Store: memstore.New(memstore.Config{})}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *spyStore) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if s.fail != nil {
		s.failed++
		receipts := make([]core.Receipt, len(messages))
		for n, m := range messages {
			receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: s.fail}
		}
		return receipts
	}
	receipts := s.Store.Park(ctx, messages...)
	for n, receipt := range receipts {
		switch {
		case receipt.Duplicate:
			s.duplicates++
		case receipt.Err == nil:
			s.parked = append(s.parked, clone(messages[n]))
		}
	}
	if s.after != nil {
		s.after()
	}
	return receipts
}

func clone(m *core.Message) *core.Message {
	c := *m
	c.Key, c.Body, c.Headers = bytes.Clone(m.Key), bytes.Clone(m.Body), slices.Clone(m.Headers)
	return &c
}

// until waits for what ok looks at with the lock held.
func (s *spyStore) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.AfterFunc(60*time.Second, func() { s.changed.Broadcast() })
	defer late.Stop()
	deadline := time.Now().Add(59 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s: %d parked, %d duplicates, %d failed calls", what, len(s.parked), s.duplicates, s.failed)
		}
		s.changed.Wait()
	}
}

// await returns the first want messages that were parked, in order.
func (s *spyStore) await(t testing.TB, want int) []*core.Message {
	t.Helper()
	s.until(t, strconv.Itoa(want)+" messages", func() bool { return len(s.parked) >= want })
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parked)
}

func (s *spyStore) setFail(err error) {
	s.mu.Lock()
	s.fail = err
	s.mu.Unlock()
}

// wantOnce holds that the bodies 0 to n-1 are parked, once each, and in order.
func (s *spyStore) wantOnce(t testing.TB, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.parked {
		if i < n && string(m.Body) != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, m.Body)
		}
	}
	if len(s.parked) != n {
		t.Errorf("%d messages parked, want %d", len(s.parked), n)
	}
}
