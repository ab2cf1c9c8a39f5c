//go:build unix

package amqpdelay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/amqpdelay"
	"github.com/delaybridge/delaybridge/client/internal/bridgetest"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	amqpsink "github.com/delaybridge/delaybridge/sinks/amqp"
)

// fixture is a RabbitMQ, a bridge before it, a wrapped channel, and what arrives
// in one queue.
type fixture struct {
	*testing.T
	ctx      context.Context
	queue    string
	channel  *amqpdelay.Channel
	bridge   *client.Client
	arrivals <-chan amqp.Delivery
}

func newFixture(t *testing.T, options amqpdelay.Options) *fixture {
	t.Helper()
	url := servers.SharedRabbitMQ(t).URL()
	connection, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, queue: fmt.Sprintf("q-%d", rand.Uint64())}
	// The sink has another exchange than the messages.
	f.bridge = bridgetest.Start(t, "amqp", amqpsink.Open, map[string]any{"urls": []string{url}, "exchange": "amq.topic"})
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	options.Sink = "amqp"
	f.channel = amqpdelay.Wrap(channel, f.bridge, options)
	if _, err := f.channel.QueueDeclare(f.queue, false, false, true, false, amqp.Table{"x-max-priority": 9}); err != nil {
		t.Fatal(err)
	}
	if f.arrivals, err = f.channel.Consume(f.queue, "", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) next() (amqp.Delivery, time.Time) {
	f.Helper()
	select {
	case d := <-f.arrivals:
		return d, time.Now()
	case <-f.ctx.Done():
		f.Fatal("nothing arrived")
	}
	panic("unreachable")
}

// collect returns the next n deliveries by message ID, and when they came.
func (f *fixture) collect(n int) (map[string]amqp.Delivery, map[string]time.Time) {
	f.Helper()
	arrived, when := make(map[string]amqp.Delivery), make(map[string]time.Time)
	for range n {
		d, now := f.next()
		if _, again := arrived[d.MessageId]; again {
			f.Fatalf("%q arrived again", d.MessageId)
		}
		arrived[d.MessageId], when[d.MessageId] = d, now
	}
	return arrived, when
}

// publishing is one with all that is kept.
func publishing(id string) amqp.Publishing {
	return amqp.Publishing{Headers: amqp.Table{"a": "text", "b": string([]byte{0, 255}), "none": nil, "empty": ""},
		ContentType: "text/plain", ContentEncoding: "none", Priority: 7, CorrelationId: "c", ReplyTo: "r", Expiration: "60000",
		MessageId: id, Type: "t", AppId: "app", DeliveryMode: amqp.Persistent, Body: []byte{0, 1, 255}}
}

// check compares what arrived, less what the bridge has added.
func (f *fixture) check(want amqp.Publishing, got amqp.Delivery) {
	f.Helper()
	arrived := amqp.Publishing{Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding,
		Priority: got.Priority, CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration,
		MessageId: got.MessageId, Type: got.Type, AppId: got.AppId, DeliveryMode: got.DeliveryMode, Body: got.Body}
	for _, name := range []string{core.HeaderID, core.HeaderAttempt, core.HeaderDeliverAt} {
		delete(arrived.Headers, name)
	}
	if diff := cmp.Diff(want, arrived); diff != "" {
		f.Error(diff)
	}
}

// TestDelayedAndOthers: what has no delay arrives as it was, the rest later,
// never early, to its own exchange, and without scheduling headers.
func TestDelayedAndOthers(t *testing.T) {
	f := newFixture(t, amqpdelay.Options{})
	const delay = 1500 * time.Millisecond
	at := time.Now().Add(2 * delay)
	began := time.Now()
	for _, sent := range []struct {
		id, header string
		value      any
	}{
		{"none", "other", "x"}, {"over", "x-delay", int32(-5)},
		{"x-delay", "x-delay", int32(delay.Milliseconds())}, {"deliver-at", "delaybridge-deliver-at", at.Format(time.RFC3339Nano)},
	} {
		p := publishing(sent.id)
		p.Headers[sent.header] = sent.value
		if err := f.channel.PublishWithContext(f.ctx, "", f.queue, true, false, p); err != nil {
			t.Fatalf("%s: %v", sent.id, err)
		}
	}
	arrived, when := f.collect(4) // on a slow machine in any order
	for _, direct := range []struct {
		id, header string
		value      any
	}{{"none", "other", "x"}, {"over", "x-delay", int32(-5)}} {
		want, got := publishing(direct.id), arrived[direct.id]
		want.Headers[direct.header] = direct.value
		if got.Headers[core.HeaderID] != nil {
			t.Errorf("%s came by way of the bridge", direct.id)
		}
		f.check(want, got)
	}
	for id, due := range map[string]time.Time{"x-delay": began.Add(delay), "deliver-at": at} {
		got := arrived[id]
		f.check(publishing(id), got)
		if when[id].Before(due) {
			t.Errorf("%s came %s early", id, due.Sub(when[id]))
		}
		if got.Exchange != "" || got.RoutingKey != f.queue {
			t.Errorf("%s came by %q with %q", id, got.Exchange, got.RoutingKey)
		}
	}
}

// TestRoutingKeys: also those arrive that can't be a topic.
func TestRoutingKeys(t *testing.T) {
	f := newFixture(t, amqpdelay.Options{})
	for _, key := range []string{"", "with spaces and é", "plain"} {
		if err := f.channel.QueueBind(f.queue, key, "amq.direct", false, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.channel.Publish("amq.direct", key, false, false, amqp.Publishing{Headers: amqp.Table{"x-delay": 1}}); err != nil {
			t.Fatal(err)
		}
		if got, _ := f.next(); got.Exchange != "amq.direct" || got.RoutingKey != key || len(got.Body) != 0 {
			t.Errorf("%q came by %q with %q", key, got.Exchange, got.RoutingKey)
		}
	}
}

func TestDeferredConfirms(t *testing.T) {
	f := newFixture(t, amqpdelay.Options{})
	publish := func(headers amqp.Table) *amqpdelay.Confirmation {
		t.Helper()
		confirmation, err := f.channel.PublishWithDeferredConfirm("", f.queue, true, false, amqp.Publishing{Headers: headers})
		if err != nil {
			t.Fatal(err)
		}
		return confirmation
	}
	if got := publish(nil); got != nil {
		t.Error("a confirmation without confirm mode")
	}
	if err := f.channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string]amqp.Table{"at once": nil, "delayed": {"x-delay": 1}} {
		confirmation := publish(headers)
		if acked, err := confirmation.WaitContext(f.ctx); !acked || err != nil {
			t.Errorf("%s: got %t, %v", name, acked, err)
		}
		<-confirmation.Done()
		if !confirmation.Acked() || !confirmation.Wait() || (confirmation.DeliveryTag == 0) != (headers != nil) {
			t.Errorf("%s: got %+v", name, confirmation)
		}
	}
	for range 3 {
		f.next()
	}
}

func TestRefused(t *testing.T) {
	f := newFixture(t, amqpdelay.Options{})
	tests := map[string]struct {
		field     string
		immediate bool
		change    func(*amqp.Publishing)
	}{
		"number":        {"headers", false, func(p *amqp.Publishing) { p.Headers["n"] = 1 }},
		"table":         {"headers", false, func(p *amqp.Publishing) { p.Headers["n"] = amqp.Table{} }},
		"both times":    {"x-delay", false, func(p *amqp.Publishing) { p.Headers["delaybridge-delay"] = "3s" }},
		"delay as text": {"x-delay", false, func(p *amqp.Publishing) { p.Headers["x-delay"] = "5s" }},
		"other ID":      {"delaybridge-id", false, func(p *amqp.Publishing) { p.MessageId, p.Headers["delaybridge-id"] = "one", "other" }},
		"bad ID":        {"id", false, func(p *amqp.Publishing) { p.MessageId = "a b" }},
		"priority":      {"priority", false, func(p *amqp.Publishing) { p.Priority = 10 }},
		"expiration":    {"options.expiration_ms", false, func(p *amqp.Publishing) { p.Expiration = "soon" }},
		"more keys":     {"headers", false, func(p *amqp.Publishing) { p.Headers["CC"] = "x" }},
		"immediate":     {"immediate", true, func(*amqp.Publishing) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := publishing("")
			p.Headers["x-delay"] = 1
			test.change(&p)
			err := f.channel.PublishWithContext(f.ctx, "", f.queue, true, test.immediate, p)
			if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrInvalid) || e.Field != test.field {
				t.Errorf("got %v", err)
			}
		})
	}
	for e, err := range f.bridge.List(f.ctx, client.Query{}) {
		t.Errorf("stored is %+v, %v", e, err)
	}
}

func TestHeadersAsText(t *testing.T) {
	f := newFixture(t, amqpdelay.Options{HeadersAsText: true})
	p := amqp.Publishing{Headers: amqp.Table{"x-delay": "1", "int": int64(-3), "uint": uint8(200), "float": 0.5, "single": float32(0.1), "bool": true,
		"time": time.Unix(1_800_000_000, 0), "bytes": []byte{1, 2}}}
	if err := f.channel.PublishWithContext(f.ctx, "", f.queue, true, false, p); err != nil {
		t.Fatal(err)
	}
	got, _ := f.next()
	f.check(amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: got.MessageId, Headers: amqp.Table{
		"int": "-3", "uint": "200", "float": "0.5", "single": "0.1", "bool": "true", "time": "2027-01-15T08:00:00Z", "bytes": "\x01\x02"}, Body: []byte{}}, got)
	p.Headers["array"] = []any{1}
	if err := f.channel.PublishWithContext(f.ctx, "", f.queue, true, false, p); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
