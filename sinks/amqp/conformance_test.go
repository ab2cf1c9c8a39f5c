package amqp

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

const kitMaxBody = 100_000

// kit runs the suite as a user who may not write to what begins with forbidden.
func (r *rabbit) kit(t testing.TB, more map[string]any) sinktest.Kit {
	return r.kitOf(t, more, func(t testing.TB, config map[string]any, url string) core.Sink { return openTest(t, config, url) })
}

// kitOf is kit with a way of its own to open a sink.
func (r *rabbit) kitOf(t testing.TB, more map[string]any, open func(t testing.TB, config map[string]any, url string) core.Sink) sinktest.Kit {
	wire := sinktest.NewWire(t)
	config := map[string]any{"max_message_size": kitMaxBody}
	for name, value := range more {
		config[name] = value
	}
	openAs := func(user, password string) func(testing.TB) core.Sink {
		return func(t testing.TB) core.Sink {
			return open(t, config, through(t, r.URLAs(user, password), wire.Addr(t, r.Addr())))
		}
	}
	direct := func(exchange string) func(*core.Message) {
		return func(m *core.Message) { m.Options = map[string]string{"exchange": exchange} }
	}
	faults := wire.Faults()
	faults.Restart = func(testing.TB) { r.Kill(); r.Start() }
	return sinktest.Kit{
		Open:     openAs("suite", "secret"),
		NewTopic: func(t testing.TB) string { return r.queue(t, nil) },
		Consume:  r.consume,
		Can: []sinktest.Capability{sinktest.Headers, sinktest.BinaryHeaders, sinktest.NullHeaders,
			sinktest.EmptyBody, sinktest.Ordered},
		MaxBody: kitMaxBody,
		Delays: []core.Header{{Name: "x-delay", Value: []byte("5000")}, {Name: "X-Opt-Delivery-Delay", Value: []byte("5000")},
			{Name: "x-opt-delivery-time", Value: []byte("4102444800000")}},
		Hostile: []*core.Message{
			{Headers: []core.Header{{Name: "CC", Value: []byte("elsewhere")}}},
			{Headers: []core.Header{{Name: "BCC", Value: []byte("elsewhere")}}},
			{Headers: []core.Header{{Name: "x-death", Value: []byte("not an array")}}},
			{Headers: []core.Header{{Name: "x-match", Value: []byte("all")}}},
			{Options: map[string]string{"reply_to": "amq.rabbitmq.reply-to"}},
			{Options: map[string]string{"expiration_ms": "soon"}},
			{Options: map[string]string{"content_type": string(make([]byte, 300))}},
			{Topic: "amq.rabbitmq.reply-to"},
		},
		MissingTopic:    &sinktest.Refusal{Topic: func(testing.TB) string { return "no-such-queue" }, Class: core.TopicBlocked},
		NoRights:        &sinktest.Refusal{Prepare: direct(r.exchange(t, "forbidden")), Class: core.TopicBlocked},
		Unroutable:      &sinktest.Refusal{Prepare: direct(r.exchange(t, "unbound")), Class: core.TopicBlocked},
		LoginRefused:    &sinktest.Refusal{Open: openAs("suite", "wrong"), Class: core.Blocked},
		NegativeConfirm: &sinktest.Refusal{Topic: r.fullQueue, Class: core.Retry},
		Faults:          faults,
	}
}

func (r *rabbit) fullQueue(t testing.TB) string {
	return r.queue(t, amqp091.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
}

// quorumKit is the kit with an exchange of its own, quorum queues bound to it,
// and fewer channels than the suite has goroutines.
func (r *rabbit) quorumKit(t testing.TB) sinktest.Kit {
	exchange := r.exchange(t, "suite")
	bound := func(t testing.TB, queue string) string {
		if err := r.channel(t).QueueBind(queue, queue, exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		return queue
	}
	kit := r.kit(t, map[string]any{"exchange": exchange, "connections": 2, "channels": 2})
	kit.NewTopic = func(t testing.TB) string { return bound(t, r.queue(t, amqp091.Table{"x-queue-type": "quorum"})) }
	kit.NegativeConfirm.Topic = func(t testing.TB) string { return bound(t, r.fullQueue(t)) }
	// RabbitMQ 3.10 may lose a quorum queue that it made seconds before it was
	// killed, as the suite's are; so this one is asked to end.
	kit.Faults.Restart = func(testing.TB) { r.Restart() }
	return kit
}

func TestConformance(t *testing.T) {
	r := startRabbit(t)
	r.AddUser("suite", "secret", ".*", "^(?!forbidden)", ".*")
	t.Run("default exchange", func(t *testing.T) { sinktest.Run(t, r.kit(t, nil)) })
	t.Run("quorum queues", func(t *testing.T) { sinktest.Run(t, r.quorumKit(t)) })
}
