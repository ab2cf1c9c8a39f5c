package amqp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

var due = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func testSettings() *settings {
	return &settings{exchange: "set", maxMessageSize: 1000, deliveryMode: amqp091.Persistent}
}

func TestOutgoing(t *testing.T) {
	m := &core.Message{ID: "id-1", Topic: "orders", Body: []byte("body"), DeliverAt: due, Attempt: 2, Priority: 7,
		Headers: []core.Header{{Name: "a", Value: []byte("1\x00\xff")}, {Name: "null"}, {Name: "empty", Value: []byte{}},
			{Name: "X-Delay", Value: []byte("5000")}},
		Options: map[string]string{"retry.max": "1s", "content_type": "text/plain", "content_encoding": "gzip",
			"correlation_id": "c", "reply_to": "answers", "type": "t", "app_id": "app", "expiration_ms": "060000"},
	}
	o, err := testSettings().outgoing(m)
	if err != nil {
		t.Fatal(err)
	}
	want := amqp091.Publishing{
		MessageId: "id-1", Body: []byte("body"), DeliveryMode: 2, Priority: 7, ContentType: "text/plain", ContentEncoding: "gzip",
		CorrelationId: "c", ReplyTo: "answers", Type: "t", AppId: "app", Expiration: "60000",
		Headers: amqp091.Table{"a": "1\x00\xff", "null": nil, "empty": "", core.HeaderID: "id-1", core.HeaderAttempt: "2",
			core.HeaderDeliverAt: "2026-01-02T15:04:05.000Z"},
	}
	if diff := cmp.Diff(want, o.Publishing); diff != "" {
		t.Errorf("publishing (-want +got):\n%s", diff)
	}
}

func TestRoute(t *testing.T) {
	tests := []struct {
		name          string
		options       map[string]string
		exchange, key string
	}{
		{"topic is the routing key", nil, "set", "orders"},
		{"exchange by option", map[string]string{"exchange": "x"}, "x", "orders"},
		{"the default exchange by option", map[string]string{"exchange": ""}, "", "orders"},
		{"routing key by option", map[string]string{"routing_key": "a.b"}, "set", "a.b"},
		{"empty routing key", map[string]string{"exchange": "fan", "routing_key": ""}, "fan", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := testSettings().outgoing(&core.Message{ID: "i", Topic: "orders", Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			if o.exchange != tt.exchange || o.key != tt.key {
				t.Errorf("exchange %q, key %q, want %q, %q", o.exchange, o.key, tt.exchange, tt.key)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	option := func(name, value string) core.Message { return core.Message{Options: map[string]string{name: value}} }
	header := func(names ...string) core.Message {
		var m core.Message
		for _, name := range names {
			m.Headers = append(m.Headers, core.Header{Name: name, Value: []byte("v")})
		}
		return m
	}
	tests := []struct {
		name  string
		m     core.Message
		field string // empty: accepted
		large bool
	}{
		{"largest body", core.Message{Body: make([]byte, 1000)}, "", false},
		{"larger body", core.Message{Body: make([]byte, 1001)}, "body", true},
		{"long topic", core.Message{Topic: long}, "topic", true},
		{"long id", core.Message{ID: long}, "id", true},
		{"unknown option", option("partition", "1"), "options.partition", false},
		{"option of the engine", option("retry.max", "1s"), "", false},
		{"long property", option("correlation_id", long), "options.correlation_id", true},
		{"long routing key", option("routing_key", long), "options.routing_key", true},
		{"control bytes", option("type", "a\nb"), "options.type", false},
		{"invalid UTF-8", option("app_id", "\xff"), "options.app_id", false},
		{"direct reply", option("reply_to", "amq.rabbitmq.reply-to"), "options.reply_to", false},
		{"someone's direct reply", option("reply_to", "amq.rabbitmq.reply-to.xyz"), "options.reply_to", false},
		{"expiration in words", option("expiration_ms", "1m"), "options.expiration_ms", false},
		{"negative expiration", option("expiration_ms", "-1"), "options.expiration_ms", false},
		{"far expiration", option("expiration_ms", "4294967296"), "options.expiration_ms", false},
		{"farthest expiration", option("expiration_ms", "4294967295"), "", false},
		{"user_id would close the channel", option("user_id", "root"), "options.user_id", false},
		{"CC", header("CC"), "headers", false},
		{"BCC", header("a", "BCC"), "headers", false},
		{"cc is another name", header("cc"), "", false},
		{"repeated header", header("a", "b", "a"), "headers", false},
		{"names that differ in case", header("a", "A"), "", false},
		{"repeated delay", header("x-delay", "x-delay"), "", false},
		{"long header name", header(long), "headers", true},
		{"headers that fill a frame", core.Message{Headers: []core.Header{{Name: "a", Value: make([]byte, 128<<10)}}}, "headers", true},
	}
	sink := newSink(settings{exchange: "set", maxMessageSize: 1000, connections: 1, channels: 1})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.m.ID == "" {
				tt.m.ID = "i"
			}
			_, err := sink.outgoing(&tt.m)
			if tt.field == "" {
				if err != nil {
					t.Errorf("Check = %v, want nil", err)
				}
				return
			}
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field != tt.field || invalid.TooLarge != tt.large {
				t.Errorf("Check = %v (too large: %t), want an InvalidError for %s (too large: %t)", err, ok && invalid.TooLarge, tt.field, tt.large)
			}
		})
	}
}
