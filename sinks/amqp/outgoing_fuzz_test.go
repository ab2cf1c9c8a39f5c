package amqp

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// FuzzOutgoing: a message that passes the checks at accept is published without
// harm to the connection that it shares with others, fits the frames that
// brokers take, and comes back to a consumer as it was.
func FuzzOutgoing(f *testing.F) {
	f.Add("id", "orders", []byte("body"), "name", []byte("value"), "again", []byte("2"), "content_type", "text/plain", "")
	f.Add("id", "t", []byte{}, "X-Delay", []byte("5000"), "CC", []byte("x"), "reply_to", "amq.rabbitmq.reply-to", "")
	f.Add("id", "t", []byte("\x00\xce"), "a", []byte("-5"), "b", []byte(`[["F",{"x":["x","/wA="]}],["V"]]`), "priority", "200", "lA")
	f.Add("id", "t", []byte("b"), "a", []byte("1e300"), "b", []byte("-1234e-2"), "timestamp", "-62135596800", "dD")
	f.Add("id", "t", []byte("b"), "a", []byte("9223372036854775807"), "b", []byte("NaN"), "timestamp", "9223372036854775807", "Tf")
	f.Add("id", strings.Repeat("t", 255), []byte("b"), strings.Repeat("n", 255), []byte("\xff"), "n", []byte(nil), "x_delay", "-4294967295", "xS")
	f.Add("id", "t", []byte("b"), "a", []byte("x"), "b", []byte("y"), "expiration_ms", "4294967295", "")
	rig := newEcho(f)
	settings := &settings{exchange: "set", maxMessageSize: 1 << 20, deliveryMode: amqp091.Persistent}
	f.Fuzz(func(t *testing.T, id, topic string, body []byte, name string, value []byte, again string, more []byte, option, setting, types string) {
		m := &core.Message{ID: id, Sink: "amqp", Topic: topic, Body: body, Attempt: 1, DeliverAt: due,
			Headers: []core.Header{{Name: name, Value: value}, {Name: again, Value: more}}, Options: map[string]string{option: setting}}
		if types != "" {
			m.Options["header_types"] = types
		}
		if (core.Limits{}).Check(m, due) != nil {
			return
		}
		o, err := settings.outgoing(m)
		if err != nil {
			return
		}
		got := rig.through(t, o)
		if diff := cmp.Diff(o.Publishing, got.Publishing, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" || got.exchange != o.exchange || got.key != o.key {
			t.Errorf("to %q %q, came to %q %q; -published +consumed:\n%s", o.exchange, o.key, got.exchange, got.key, diff)
		}
	})
}

// echo is a broker that hands what is published to the one who published it.
type echo struct {
	channel    *amqp091.Channel
	deliveries <-chan amqp091.Delivery
	broken     chan error
}

func newEcho(f *testing.F) *echo {
	f.Helper()
	near, far := net.Pipe()
	e := &echo{broken: make(chan error, 1)}
	go func() { e.broken <- (&wire{Conn: far}).serve(); far.Close() }()
	connection, err := amqp091.Open(near, amqp091.Config{SASL: []amqp091.Authentication{&amqp091.PlainAuth{}}, FrameSize: amqp.FrameSize})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { near.Close() })
	if e.channel, err = connection.Channel(); err != nil {
		f.Fatal(err)
	}
	if e.deliveries, err = e.channel.Consume("q", "c", true, false, false, true, nil); err != nil {
		f.Fatal(err)
	}
	return e
}

// through publishes o and returns what a consumer has got.
func (e *echo) through(t *testing.T, o *outgoing) *outgoing {
	t.Helper()
	if err := e.channel.Publish(o.exchange, o.key, false, false, o.Publishing); err != nil {
		t.Fatalf("publish %+v: %v", o, err)
	}
	select {
	case d, ok := <-e.deliveries:
		if !ok {
			t.Fatalf("the connection did not survive: %v", <-e.broken)
		}
		return &outgoing{exchange: d.Exchange, key: d.RoutingKey, Publishing: amqp091.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
			Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
			MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body}}
	case err := <-e.broken:
		t.Fatalf("the broker gives up: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came back")
	}
	return nil
}

// wire is the broker's end of the connection.
type wire struct{ net.Conn }

// The methods that it knows, as class and number.
var (
	methodStart, methodStartOk = []byte{0, 10, 0, 10}, []byte{0, 10, 0, 11}
	methodTune                 = []byte{0, 10, 0, 30}
	methodOpen, methodOpenOk   = []byte{0, 10, 0, 40}, []byte{0, 10, 0, 41}
	channelOpen, channelOpenOk = []byte{0, 20, 0, 10}, []byte{0, 20, 0, 11}
	basicConsume               = []byte{0, 60, 0, 20}
	basicPublish, basicDeliver = []byte{0, 60, 0, 40}, []byte{0, 60, 0, 60}
	frameMethod, frameEnd      = byte(1), byte(0xce)
	greeting, frameHead        = 8, 7
)

func (w *wire) serve() error {
	if _, err := w.read(greeting); err != nil {
		return err
	}
	w.method(0, methodStart, []byte{0, 9}, []byte{0, 0, 0, 0}, long("PLAIN"), long("en_US"))
	for {
		head, err := w.read(frameHead)
		if err != nil {
			return err
		}
		size := int(head[3])<<24 | int(head[4])<<16 | int(head[5])<<8 | int(head[6])
		if size+frameHead+1 > amqp.FrameSize {
			return fmt.Errorf("a frame of %d bytes", size)
		}
		payload, err := w.read(size + 1)
		if err != nil || payload[size] != frameEnd {
			return fmt.Errorf("a frame without an end: %w", err)
		}
		if err := w.answer(head, payload[:size]); err != nil {
			return err
		}
	}
}

// answer does what the frame says; a content is sent back as it came.
func (w *wire) answer(head, payload []byte) error {
	if head[0] != frameMethod {
		_, err := w.Write(slices.Concat(head, payload, []byte{frameEnd}))
		return err
	}
	switch method, args := payload[:4], payload[4:]; {
	case slices.Equal(method, methodStartOk):
		return w.method(0, methodTune, []byte{0, 10, 0, 2, 0, 0, 0, 0}) // 10 channels, 128 KiB, no heartbeat
	case slices.Equal(method, methodOpen):
		return w.method(0, methodOpenOk, []byte{0})
	case slices.Equal(method, channelOpen):
		return w.method(head[2], channelOpenOk, []byte{0, 0, 0, 0})
	case slices.Equal(method, basicPublish):
		route := args[2 : len(args)-1] // between a reserved number and the flags
		return w.method(head[2], basicDeliver, []byte("\x01c"), []byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte{0}, route)
	case slices.Equal(method, basicConsume): // without waiting
	}
	return nil
}

func (w *wire) method(channel byte, parts ...[]byte) error {
	payload := slices.Concat(parts...)
	_, err := w.Write(slices.Concat([]byte{frameMethod, 0, channel, 0, 0, byte(len(payload) >> 8), byte(len(payload))}, payload, []byte{frameEnd}))
	return err
}

func (w *wire) read(n int) ([]byte, error) {
	b := make([]byte, n)
	for at := 0; at < n; {
		more, err := w.Read(b[at:])
		if err != nil {
			return nil, err
		}
		at += more
	}
	return b, nil
}

func long(text string) []byte { return append([]byte{0, 0, 0, byte(len(text))}, text...) }
