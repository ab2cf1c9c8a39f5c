package amqpsource

import (
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// TestManyRedeliveries: what the source declares keeps a message however often it is
// delivered again, on RabbitMQ before version 4 and since.
func TestManyRedeliveries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.name + ".delayed"
	settings := map[string]any{"exchanges": []map[string]any{{"name": name, "to": "orders"}}, "queue_arguments": map[string]any{"x-queue-type": "quorum"}}
	src, log := r.logged(settings)
	r.awaitExchange(r.URL(), "delaybridge."+name)
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	r.publish("delaybridge."+name, numbered(0, 1)...)
	deliveries, err := r.channel.Consume("delaybridge."+name, "c", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		select {
		case d := <-deliveries:
			if err := d.Nack(false, true); err != nil {
				t.Fatal(err)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("dropped after %d deliveries", n)
		}
	}
	if err := r.channel.Close(); err != nil {
		t.Fatal(err)
	}
	r.channel = r.open(r.URL())
	again, _ := r.logged(settings)
	r.store.Await(t, 1)
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("warned of the source's own queue: %s", log)
	}
}

// TestWarnsOfALimit: on RabbitMQ 4 the log names the limit of a queue that is not the
// source's, and of one that the source declared before it knew better.
func TestWarnsOfALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	of := func(arguments ...any) amqp091.Table {
		made := amqp091.Table{"x-queue-type": "quorum"}
		for n := 0; n < len(arguments); n += 2 {
			made[arguments[n].(string)] = arguments[n+1]
		}
		return made
	}
	for suffix, test := range map[string]struct {
		arguments amqp091.Table
		warning   string
	}{
		".classic":  {nil, ""},
		".standard": {of(), "20, the default"},
		".fifty":    {of(amqp.LimitArgument, int32(50)), "limit='50'"},
		".never":    {of(amqp.LimitArgument, int32(-1)), ""},
		".full": {of("x-max-length", int32(5), "x-message-ttl", int32(60000), "x-dead-letter-exchange", "it's 'dead'",
			"x-single-active-consumer", true, "x-overflow", "reject-publish"), "20, the default"},
		".full-never": {of("x-max-length", int32(5), "x-dead-letter-exchange", "1", "x-dead-letter-routing-key", "2", amqp.LimitArgument, int32(-1)), ""},
		".full-fifty": {of("x-dead-letter-exchange", "1", "x-max-length-bytes", int64(1<<40), amqp.LimitArgument, int64(50)), "limit='50'"},
	} {
		queue := r.queue(suffix, test.arguments)
		r.wantWarning(map[string]any{"queues": []string{queue}}, queue, test.warning)
	}
	exchange := r.name + ".delayed"
	queue := r.queue(".own", of())
	r.wantWarning(map[string]any{"exchanges": []map[string]any{{"name": exchange, "to": "orders", "queue": queue}},
		"queue_arguments": map[string]any{"x-queue-type": "quorum"}}, queue, "20, the default")
	connection := r.dial()
	defer connection.Close(nil)
	if limit, err := connection.DeliveryLimit(r.name + ".none"); limit != "" || err != nil {
		t.Errorf("a queue that is not there has the limit %q, %v", limit, err)
	}
	if _, err := r.open(r.URL()).QueueDeclarePassive(r.name+".none", true, false, false, false, nil); err == nil {
		t.Error("the question has made a queue")
	}
}

func (r *rig) wantWarning(settings map[string]any, queue, want string) {
	r.t.Helper()
	if !r.limited() {
		want = ""
	}
	src, log := r.logged(settings)
	r.awaitExchange(r.URL(), queue)
	poll.Until(r.t, time.Minute, "it reads", func() bool { return strings.Contains(log.String(), "source started") })
	if err := src.Stop(); err != nil {
		r.t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "WARN") != (want != "") || !strings.Contains(text, want) {
		r.t.Errorf("%s: want %q in %s", queue, want, text)
	}
}

// limited tells whether the server is one of those that limit deliveries.
func (r *rig) limited() bool {
	c := r.dial()
	defer c.Close(nil)
	return c.LimitsDeliveries()
}

func (r *rig) dial() *amqp.Connection {
	r.t.Helper()
	cluster, err := (&amqp.ConnectionConfig{URLs: []string{r.URL()}}).Load()
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := cluster.Dialer().Dial(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}
