//go:build unix

package amqpsource

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// program is one that was written for the delayed message plugin, with what it
// says in its own words. Its lines are those of before, less the two values that
// have to change: the type, and the exchange that it publishes to.
type program struct {
	kind      string // before: x-delayed-message, with this as x-delayed-type
	exchange  string
	publishTo string // before: exchange
	binding   string
	arguments amqp091.Table // of the binding
}

// consume declares, binds and consumes, as the program always did.
func (p *program) consume(r *rig, channel *amqp091.Channel) <-chan amqp091.Delivery {
	r.t.Helper()
	// The argument that the plugin wanted may stay.
	if err := channel.ExchangeDeclare(p.exchange, p.kind, true, false, false, false, amqp091.Table{"x-delayed-type": p.kind}); err != nil {
		r.t.Fatal(err)
	}
	q, err := channel.QueueDeclare(p.exchange+".consumer", true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := channel.QueueBind(q.Name, p.binding, p.exchange, false, p.arguments); err != nil {
		r.t.Fatal(err)
	}
	deliveries, err := channel.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return deliveries
}

func (p *program) publish(r *rig, channel *amqp091.Channel, key, body string, headers amqp091.Table) time.Time {
	r.t.Helper()
	confirm, err := channel.PublishWithDeferredConfirm(p.publishTo, key, true, false,
		amqp091.Publishing{Body: []byte(body), MessageId: "id of " + body, Headers: headers, DeliveryMode: amqp091.Persistent})
	if err != nil {
		r.t.Fatal(err)
	}
	began := time.Now() // the bridge can't have it before
	if !confirm.Wait() {
		r.t.Fatal("not confirmed")
	}
	return began
}

func (r *rig) next(deliveries <-chan amqp091.Delivery) amqp091.Delivery {
	r.t.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(60 * time.Second):
		r.t.Fatal("nothing arrived")
		return amqp091.Delivery{}
	}
}

// TestInPlaceOfThePlugin: all kinds of exchanges route as they did, after the
// delay, and consumers see what the plugin showed them.
func TestInPlaceOfThePlugin(t *testing.T) {
	r := newRig(t)
	const delay = 1200 * time.Millisecond
	programs := []struct {
		program
		key, other string // one that is bound, and one that is not
		headers    amqp091.Table
	}{
		{program{kind: "direct", binding: "new order é"}, "new order é", "elsewhere", nil},
		{program{kind: "topic", binding: "order.*.paid"}, "order.42.paid", "order.42.new", nil},
		{program{kind: "fanout", binding: ""}, "", "", nil},
		{program{kind: "headers", arguments: amqp091.Table{"x-match": "all", "n": int32(7), "color": "red"}}, "any", "", amqp091.Table{"n": int32(7), "color": "red"}},
	}
	var exchanges []map[string]any
	for n := range programs {
		p := &programs[n]
		p.exchange, p.publishTo = r.name+"."+p.kind, r.name+"."+p.kind+".delayed"
		exchanges = append(exchanges, map[string]any{"name": p.publishTo, "to": p.exchange})
	}
	r.bridge(map[string]any{"mandatory": false}, map[string]any{"exchanges": exchanges})
	for n := range programs {
		p := &programs[n]
		t.Run(p.kind, func(t *testing.T) {
			channel := r.open(r.URL())
			arrivals := p.consume(r, channel)
			with := func(more amqp091.Table) amqp091.Table {
				for name, value := range p.headers {
					more[name] = value
				}
				return more
			}
			if p.kind != "fanout" {
				p.publish(r, channel, p.other, "not bound", amqp091.Table{"x-delay": 0, "n": int32(8)})
			}
			at := p.publish(r, channel, p.key, "late", with(amqp091.Table{"x-delay": int32(delay.Milliseconds())}))
			p.publish(r, channel, p.key, "over", with(amqp091.Table{"x-delay": int32(-5)}))
			if d := r.next(arrivals); string(d.Body) != "over" || d.Headers["x-delay"] != int32(-5) {
				t.Errorf("first came %q with x-delay %v", d.Body, d.Headers["x-delay"])
			}
			p.publish(r, channel, p.key, "without", with(amqp091.Table{}))
			if d := r.next(arrivals); string(d.Body) != "without" || d.Headers["x-delay"] != nil {
				t.Errorf("then came %q with x-delay %v", d.Body, d.Headers["x-delay"])
			}
			d := r.next(arrivals)
			if early := delay - time.Since(at); early > 0 {
				t.Errorf("%s early", early)
			}
			if string(d.Body) != "late" || d.RoutingKey != p.key || d.Exchange != p.exchange || d.MessageId != "id of late" || d.Headers["x-delay"] != int32(-delay.Milliseconds()) {
				t.Errorf("last came %+v", d)
			}
			for name, value := range p.headers {
				if d.Headers[name] != value {
					t.Errorf("header %s is %#v, was %#v", name, d.Headers[name], value)
				}
			}
		})
	}
}

// TestTypesOfTheExchange: producers may declare the exchange that they publish
// to, and the source gets all that is published to it, whatever its type.
func TestTypesOfTheExchange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kind := range []string{"fanout", "topic", "headers"} {
		t.Run(kind, func(t *testing.T) {
			name := r.name + "." + kind
			channel := r.open(r.URL())
			declare := func() {
				if err := channel.ExchangeDeclare(name, kind, true, false, false, false, amqp091.Table{"x-delayed-type": "direct"}); err != nil {
					t.Fatal(err)
				}
			}
			declare() // before the source, and after
			r.run(r.source(map[string]any{"exchanges": []map[string]any{{"name": name, "to": "orders", "type": kind, "queue": name + ".mine"}},
				"queue_arguments": map[string]any{"x-queue-type": "quorum"}}))
			r.awaitExchange(r.URL(), name+".mine")
			declare()
			for _, key := range []string{"", "a", "a.b.c", "*", "amq.gen-1", "ü", "a b"} {
				confirm, err := channel.PublishWithDeferredConfirm(name, key, true, false, delayed("id"+key, "", "x-delay", int64(3_600_000), "key", key))
				if err != nil || !confirm.Wait() {
					t.Fatal(err)
				}
				r.store.Until(t, key, func() bool {
					for _, m := range r.store.Parked {
						if m.Options["exchange"] == "orders" && len(m.Headers) == 1 && string(m.Headers[0].Value) == key {
							want, exact := m.Options["routing_key"]
							return exact && want == key || !exact && m.Topic == key
						}
					}
					return false
				})
			}
			r.store.Lock()
			r.store.Parked = nil
			r.store.Unlock()
		})
	}
}

// TestTwoVirtualHosts: where producers have a virtual host of their own, not
// even a name has to change.
func TestTwoVirtualHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Ctl("add_vhost", r.name)
	r.Ctl("set_permissions", "-p", r.name, "guest", ".*", ".*", ".*")
	t.Cleanup(func() { r.Ctl("delete_vhost", r.name) })
	producers := r.URL() + r.name
	p := program{kind: "topic", exchange: r.name + ".orders", publishTo: r.name + ".orders", binding: "order.#"}
	r.bridge(nil, map[string]any{"urls": []string{producers}, "allow_loop": true,
		"exchanges": []map[string]any{{"name": p.exchange, "to": p.exchange, "type": "topic"}}})
	arrivals := p.consume(r, r.open(r.URL()))
	at := p.publish(r, r.open(producers), "order.1", "late", amqp091.Table{"x-delay": "799.5"})
	d := r.next(arrivals)
	if string(d.Body) != "late" || d.RoutingKey != "order.1" || time.Since(at) < 800*time.Millisecond || d.Headers["x-delay"] != "-799.5" {
		t.Errorf("after %s came %+v", time.Since(at), d)
	}
}
