//go:build unix

package amqpsource

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
	amqpsink "github.com/delaybridge/delaybridge/sinks/amqp"
)

// rig is a RabbitMQ with names of its own, and a store that tells what is parked.
type rig struct {
	*servers.RabbitMQServer
	t       testing.TB
	channel *amqp091.Channel // of the tests' own
	store   *sourcetest.Store
	name    string
}

var rigs atomic.Int64

func newRig(t testing.TB) *rig { return rigOf(t, servers.SharedRabbitMQ(t)) }

func rigOf(t testing.TB, server *servers.RabbitMQServer) *rig {
	t.Helper()
	r := &rig{RabbitMQServer: server, t: t, store: sourcetest.NewStore(), name: fmt.Sprintf("t%d-%d", time.Now().UnixMilli(), rigs.Add(1))}
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
	return core.NewBridge(r.store, core.Options{}, &core.Dispatcher{Name: "out", Sink: out}, &core.Dispatcher{Name: "other"}).Interceptor
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.t.Output(), nil))
}

// running is a source at work.
type running struct {
	*Source
	*sourcetest.Running
}

func (r *rig) run(i *Source) *running { return &running{i, sourcetest.Start(r.t, i.Run)} }

// empty runs sources, one after the other, until one leaves nothing in the queue: a stop
// gives back what is not acknowledged. done tells whether enough was read. It returns how
// many records were duplicates.
func (r *rig) empty(queue string, config map[string]any, done func(duplicates uint64) bool) (duplicates uint64) {
	r.t.Helper()
	poll.Until(r.t, time.Minute, "a queue that is empty after a stop", func() bool {
		src := r.run(r.source(config))
		poll.Until(r.t, time.Minute, "an empty queue", func() bool { return r.ready(queue) == 0 && done(duplicates+src.Report().Duplicates) })
		if err := src.Stop(); err != nil {
			r.t.Error(err)
		}
		duplicates += src.Report().Duplicates
		return r.ready(queue) == 0
	})
	return duplicates
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
	config, _, err := decode(r.config(more))
	if err != nil {
		r.t.Fatal(err)
	}
	bridge := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "out", Sink: out})
	src, err := New("src", r.config(more), bridge.Interceptor, r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx, core.Input{Name: "source", Run: src.Run}) }()
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

// wantOnce holds that the bodies 0 to n-1 are parked, once each, and in order.
func (r *rig) wantOnce(n int) {
	r.t.Helper()
	r.store.Lock()
	defer r.store.Unlock()
	for i, m := range r.store.Parked {
		if i < n && string(m.Body) != strconv.Itoa(i) {
			r.t.Fatalf("message %d is %q", i, m.Body)
		}
	}
	if len(r.store.Parked) != n {
		r.t.Errorf("%d messages parked, want %d", len(r.store.Parked), n)
	}
}
