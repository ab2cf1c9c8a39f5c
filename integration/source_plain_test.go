//go:build unix

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// The tests below use producers that have nothing to do with delaybridge: the
// brokers' own tools and clients.

const (
	plainDelay = 2 * time.Second
	plainLimit = 3 * time.Minute // for an arrival: the machine may be busy, and RocketMQ rebalances every 20 s
	rejected   = "delaybridge-reject-reason"
	noTime     = "deliver_at: is missing" // the reason for what is untagged
	// patientProducer is how many milliseconds Kafka's console producer waits for an
	// answer, instead of 1500 and a few times.
	patientProducer = "60000"
)

// inbox is what a consumer gets, but for what it gets again: from the broker, or
// as another attempt of a delivery that was confirmed too late.
type inbox struct {
	arrivals <-chan arrival
	ids      map[string]bool
	places   map[place]bool
}

func newInbox(arrivals <-chan arrival) *inbox {
	return &inbox{arrivals, map[string]bool{}, map[place]bool{}}
}

// next is the next arrival.
func (b *inbox) next(t *testing.T) arrival {
	t.Helper()
	for limit := time.After(plainLimit); ; {
		select {
		case a := <-b.arrivals:
			if b.isNew(a) {
				return a
			}
		case <-limit:
			t.Fatalf("nothing has arrived in %s", plainLimit)
		}
	}
}

// nothing: no more has arrived, nor does soon.
func (b *inbox) nothing(t *testing.T) {
	t.Helper()
	for soon := time.After(time.Second); ; {
		select {
		case a := <-b.arrivals:
			if b.isNew(a) {
				t.Errorf("%q arrived too, with %q", a.body, a.headers)
			}
		case <-soon:
			return
		}
	}
}

func (b *inbox) isNew(a arrival) bool {
	id, at := string(a.header(core.HeaderID)), place{a.lane, a.offset}
	again := b.places[at] || b.ids[id] && a.attempt() > 1
	b.ids[id], b.places[at] = true, true
	return !again
}

// checkPlain compares an arrival with what was sent at the earliest at sent, to
// be delayed by delay.
func checkPlain(t *testing.T, g *target, got arrival, sent time.Time, delay time.Duration, want accepted) {
	t.Helper()
	due, err := core.ParseTime(string(got.header(core.HeaderDeliverAt)))
	if err != nil {
		t.Fatalf("%s: %v", core.HeaderDeliverAt, err)
	}
	if due.Before(sent.Add(delay).Truncate(time.Millisecond)) {
		t.Errorf("%s was due at %s, but sent at %s with a delay of %s", want.ID, due, sent, delay)
	}
	if id := string(got.header(core.HeaderID)); !strings.HasPrefix(id, want.ID) {
		t.Errorf("the ID is %q, not %q", id, want.ID)
	}
	want.deliverAt = due
	if fault := newLedger(g).compare(want, got); fault != "" {
		t.Errorf("%s, attempt %d: %s", want.ID, got.attempt(), fault)
	}
	t.Logf("%s arrived %s after it was due", want.ID, got.at.Sub(due))
}

// checkRejected: what was refused is in its place as it came, with the reason.
func checkRejected(t *testing.T, got arrival, body string, source map[string]string) {
	t.Helper()
	if reason := string(got.header(rejected)); !strings.Contains(reason, noTime) {
		t.Errorf("the reason is %q, not %q", reason, noTime)
	}
	if string(got.body) != body || string(got.header("traceparent")) != untaggedTrace {
		t.Errorf("%q was rejected as %q with %q", body, got.body, got.headers)
	}
	for name, want := range source {
		if value := string(got.header(name)); value != want {
			t.Errorf("%s is %q, not %q", name, value, want)
		}
	}
}

// plainMessage is one of text, with a trace context.
func plainMessage(id, key, body, trace string) accepted {
	return accepted{headers: []core.Header{{Name: "traceparent", Value: []byte(trace)}},
		entry: entry{ID: id, Key: []byte(key), Body: []byte(body)}}
}

const (
	plainBody    = `{"order": 17, "for":  "Grüße ☕"}`
	untaggedBody = `{"order": 18}`

	plainTrace    = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	untaggedTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00"
)

// TestPlainKafkaProducer: Kafka's own console producer, with one more header.
func TestPlainKafkaProducer(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka3})
	orders, calls, reject := uniqueName("orders"), uniqueName("calls"), uniqueName("rejected")
	for _, topic := range []string{orders, calls, orders + ".delayed", calls + ".delayed", reject} {
		cluster.CreateTopic(topic, 1)
	}
	g := newKafkaTarget(cluster, orders)
	source := func(topic string, more map[string]any) sourceConfig {
		c := map[string]any{"brokers": cluster.Addrs(), "topics": []string{topic}, "group": uniqueName("group"), "request_timeout": "1m",
			"sink": "broker", "topic": "{topic}", "trim_suffix": ".delayed"}
		for name, value := range more {
			c[name] = value
		}
		return sourceConfig{"kafka", c}
	}
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"strict": source(orders+".delayed", map[string]any{"reject_topic": reject}),
		"mild":   source(calls+".delayed", map[string]any{"untagged": "now", "on_bad_record": "stop"}),
	}), output(t))
	produce := func(topic string, lines ...string) {
		servers.Java(t, "kafka", servers.Kafka3, strings.Join(lines, "\n")+"\n", "kafka.tools.ConsoleProducer",
			"--bootstrap-server", cluster.Addrs()[0], "--topic", topic, "--property", "parse.headers=true", "--property", "parse.key=true",
			"--request-timeout-ms", patientProducer)
	}
	arrivals, refused, mild := newInbox(g.consume(t)), newInbox(consumeKafka(t, cluster.Addrs(), reject)), newInbox(consumeKafka(t, cluster.Addrs(), calls))

	sent := time.Now()
	produce(orders+".delayed", "traceparent:"+untaggedTrace+"\tcustomer-8\t"+untaggedBody, "delaybridge-delay:2s,traceparent:"+plainTrace+"\tcustomer-7\t"+plainBody)
	checkPlain(t, g, arrivals.next(t), sent, plainDelay,
		plainMessage(fmt.Sprintf("k:strict:%s.delayed:0:1:", orders), "customer-7", plainBody, plainTrace))
	got := refused.next(t)
	checkRejected(t, got, untaggedBody, map[string]string{"delaybridge-source-topic": orders + ".delayed",
		"delaybridge-source-partition": "0", "delaybridge-source-offset": "0"})
	if string(got.key) != "customer-8" {
		t.Errorf("the rejected record has the key %q", got.key)
	}

	sent = time.Now()
	produce(calls+".delayed", "traceparent:"+untaggedTrace+"\tcustomer-9\t"+untaggedBody)
	checkPlain(t, g, mild.next(t), sent, 0, plainMessage(fmt.Sprintf("k:mild:%s.delayed:0:0:", calls), "customer-9", untaggedBody, untaggedTrace))
	bridge.stop()
	arrivals.nothing(t)
	refused.nothing(t)
	mild.nothing(t)
}

// TestPlainRabbitMQProducer: RabbitMQ's own rabbitmqadmin, with the header that
// the delayed message plugin takes.
func TestPlainRabbitMQProducer(t *testing.T) {
	t.Parallel()
	server := servers.RabbitMQ(t)
	admin := server.EnableManagement()
	g := newRabbitTarget(server.URL(), uniqueName("orders"))
	reject := uniqueName("rejected")
	for _, queue := range []string{g.topic, g.topic + ".delayed", reject} {
		declareQueue(t, server.URL(), queue)
	}
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"plain": {"amqp", map[string]any{"urls": []string{server.URL()}, "queues": []string{g.topic + ".delayed"}, "reject_queue": reject,
			"sink": "broker", "topic": "{topic}", "trim_suffix": ".delayed"}},
	}), output(t))
	publish := func(body, properties string) {
		if out := admin.Run("publish", "exchange=amq.default", "routing_key="+g.topic+".delayed", "payload="+body, "properties="+properties); !strings.Contains(out, "Message published") {
			t.Errorf("rabbitmqadmin: %s", out)
		}
	}
	deliveries, err := rabbitChannel(t, server.URL()).Consume(g.topic, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := newInbox(consumeRabbit(t, server.URL(), reject))

	sent := time.Now()
	publish(untaggedBody, `{"headers": {"traceparent": "`+untaggedTrace+`"}}`)
	publish(plainBody, `{"headers": {"x-delay": 2000, "traceparent": "`+plainTrace+`"}, "message_id": "m-1", "content_type": "application/json", "delivery_mode": 2}`)
	select {
	case d := <-deliveries:
		if d.Headers["x-delay"] != int32(-2000) || d.MessageId != "m-1" || d.ContentType != "application/json" {
			t.Errorf("x-delay %v, message_id %q, content_type %q", d.Headers["x-delay"], d.MessageId, d.ContentType)
		}
		delete(d.Headers, "x-delay") // is not text
		checkPlain(t, g, rabbitArrival(d), sent, plainDelay, plainMessage("r:plain:"+g.topic+".delayed:m-1", "", plainBody, plainTrace))
	case <-time.After(plainLimit):
		t.Fatalf("nothing has arrived in %s", plainLimit)
	}
	checkRejected(t, refused.next(t), untaggedBody, map[string]string{"delaybridge-source-queue": g.topic + ".delayed"})
	bridge.stop()
	refused.nothing(t)
	for len(deliveries) > 0 {
		if a := rabbitArrival(<-deliveries); a.attempt() < 2 {
			t.Errorf("%q arrived too, with %q", a.body, a.headers)
		}
	}
}

// TestPlainRocketMQProducer: RocketMQ's own client for Java, with one more user
// property.
func TestPlainRocketMQProducer(t *testing.T) {
	t.Parallel()
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Version: servers.RocketMQ5})
	orders, reject := uniqueName("orders"), uniqueName("rejected")
	for _, topic := range []string{orders, orders + "-delayed", reject} {
		cluster.CreateTopic(topic, 1)
	}
	g := newRocketTarget(cluster, orders)
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"plain": {"rocketmq", map[string]any{"name_servers": cluster.NameServers(), "topics": []string{orders + "-delayed"}, "reject_topic": reject,
			"request_timeout": "1m", "group": uniqueName("group"), "sink": "broker", "topic": "{topic}", "trim_suffix": "-delayed"}},
	}), output(t))
	arrivals, refused := newInbox(g.consume(t)), newInbox(consumeRocket(t, cluster.NameServers(), reject))
	source, err := filepath.Abs("testdata/PlainProducer.java")
	if err != nil {
		t.Fatal(err)
	}

	sent := time.Now()
	lines := "traceparent:" + untaggedTrace + "\t" + untaggedBody + "\ntraceparent:" + plainTrace + ",delaybridge-delay:2s\t" + plainBody + "\n"
	servers.Java(t, "rocketmq", servers.RocketMQ5, lines, source, cluster.NameServers()[0], orders+"-delayed")
	checkPlain(t, g, arrivals.next(t), sent, plainDelay, plainMessage("", "", plainBody, plainTrace))
	checkRejected(t, refused.next(t), untaggedBody, map[string]string{"delaybridge-source-topic": orders + "-delayed"})
	bridge.stop()
	arrivals.nothing(t)
	refused.nothing(t)
}
