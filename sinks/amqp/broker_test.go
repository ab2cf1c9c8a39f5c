package amqp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

// rabbit is a real RabbitMQ as the tests use it.
type rabbit struct {
	*servers.RabbitMQServer
	topics atomic.Int32
}

func startRabbit(t testing.TB) *rabbit {
	t.Helper()
	return &rabbit{RabbitMQServer: servers.RabbitMQ(t)}
}

// through is a URL of the server with another host:port.
func through(t testing.TB, text, addr string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// channel is a channel of the tests' own, beside the sink.
func (r *rabbit) channel(t testing.TB) *amqp091.Channel {
	t.Helper()
	connection, err := amqp091.Dial(r.URL())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { connection.Close() })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	return channel
}

func (r *rabbit) name(prefix string) string {
	return fmt.Sprintf("%s.%d.%d", prefix, time.Now().UnixMilli(), r.topics.Add(1))
}

// queue declares a durable queue.
func (r *rabbit) queue(t testing.TB, args amqp091.Table) string {
	t.Helper()
	name := r.name("queue")
	if _, err := r.channel(t).QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
	return name
}

// exchange declares an exchange without bindings.
func (r *rabbit) exchange(t testing.TB, prefix string) string {
	t.Helper()
	name := r.name(prefix)
	if err := r.channel(t).ExchangeDeclare(name, "direct", true, false, false, false, nil); err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
	return name
}

func (r *rabbit) consume(t testing.TB, queue string) sinktest.Reader {
	t.Helper()
	deliveries, err := r.channel(t).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume %s: %v", queue, err)
	}
	return func(ctx context.Context) (sinktest.Received, error) {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return sinktest.Received{}, fmt.Errorf("consumer of %s was ended", queue)
			}
			return received(t, d), nil
		case <-ctx.Done():
			return sinktest.Received{}, ctx.Err()
		}
	}
}

func received(t testing.TB, d amqp091.Delivery) sinktest.Received {
	r := sinktest.Received{Body: d.Body}
	for name, value := range d.Headers {
		switch v := value.(type) {
		case nil:
			r.Headers = append(r.Headers, core.Header{Name: name})
		case string:
			r.Headers = append(r.Headers, core.Header{Name: name, Value: []byte(v)})
		default:
			if !strings.HasPrefix(name, "x-") { // the broker's own
				t.Errorf("header %s is a %T", name, v)
			}
		}
	}
	return r
}

// configFor is a configuration with timeouts that a busy machine keeps, as JSON.
func configFor(t testing.TB, more map[string]any, urls ...string) json.RawMessage {
	t.Helper()
	c := map[string]any{"urls": urls, "dial_timeout": "10s", "write_timeout": "10s"}
	for name, value := range more {
		c[name] = value
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func openTest(t testing.TB, more map[string]any, urls ...string) *Sink {
	t.Helper()
	s, err := Open(t.Context(), configFor(t, more, urls...))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Sink)
}
