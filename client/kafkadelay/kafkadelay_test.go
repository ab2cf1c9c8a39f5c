//go:build unix

package kafkadelay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/bridgetest"
	"github.com/delaybridge/delaybridge/client/kafkadelay"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	kafkasink "github.com/delaybridge/delaybridge/sinks/kafka"
)

// fixture is a Kafka, a bridge before it, a wrapped Writer, and what arrives in
// one topic of one partition.
type fixture struct {
	*testing.T
	topic  string
	writer *kafkadelay.Writer
	bridge *client.Client
	reader *kafka.Reader
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cluster := servers.SharedKafka(t)
	f := &fixture{T: t, topic: fmt.Sprintf("t-%d", rand.Uint64())}
	cluster.CreateTopic(f.topic, 1)
	f.bridge = bridgetest.Start(t, "kafka", kafkasink.Open, map[string]any{"brokers": cluster.Addrs()})
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	writer := &kafka.Writer{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, ReadTimeout: time.Minute}
	f.writer = kafkadelay.Wrap(writer, f.bridge, kafkadelay.Options{Sink: "kafka"})
	t.Cleanup(func() { f.writer.Close() })
	f.reader = kafka.NewReader(kafka.ReaderConfig{Brokers: cluster.Addrs(), Topic: f.topic, MaxWait: 100 * time.Millisecond})
	t.Cleanup(func() { f.reader.Close() })
	return f
}

func (f *fixture) next() (kafka.Message, time.Time) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := f.reader.ReadMessage(ctx)
	if err != nil {
		f.Fatalf("nothing arrived: %v", err)
	}
	return m, time.Now()
}

func header(name, value string) kafka.Header { return kafka.Header{Key: name, Value: []byte(value)} }

// own are the headers that the bridge did not add, which come first.
func (f *fixture) own(m kafka.Message) []kafka.Header {
	f.Helper()
	own := len(m.Headers) - 3
	for n, name := range []string{core.HeaderID, core.HeaderAttempt, core.HeaderDeliverAt} {
		if own < 0 || m.Headers[own+n].Key != name {
			f.Fatalf("the headers are %v", m.Headers)
		}
	}
	return m.Headers[:own]
}

// check compares what arrived. kafka-go reads an empty key as none.
func (f *fixture) check(want, got kafka.Message, headers []kafka.Header) {
	f.Helper()
	if string(want.Key) != string(got.Key) {
		f.Errorf("the key is %q, want %q", got.Key, want.Key)
	}
	if diff := cmp.Diff(want.Value, got.Value); diff != "" {
		f.Errorf("the value differs: %s", diff)
	}
	if len(want.Headers) != len(headers) {
		f.Fatalf("headers %v, want %v", headers, want.Headers)
	}
	for n, h := range headers {
		if h.Key != want.Headers[n].Key || string(h.Value) != string(want.Headers[n].Value) {
			f.Errorf("header %d is %v, want %v", n, h, want.Headers[n])
		}
	}
}

// TestDelayedAndOthers: one call with both kinds. What has no delay arrives
// as it was, the rest later, never early, and without its scheduling
// headers.
func TestDelayedAndOthers(t *testing.T) {
	f := newFixture(t)
	const delay = 1500 * time.Millisecond
	all := []kafka.Header{header("b", "1"), header("a", ""), header("b", "\x00\xff"), header("b", "1")}
	want := []kafka.Message{
		{Key: []byte("k"), Value: []byte("now 1"), Headers: all},
		{Key: []byte{0xff}, Value: []byte{0, 0xfe}, Headers: all},
		{Value: []byte("now 2")},
		{Key: []byte{}, Value: nil}, // a tombstone
	}
	messages := append([]kafka.Message(nil), want...)
	messages[1].Headers = append([]kafka.Header{header("Delaybridge_Delay", delay.String())}, all...)
	at := time.Now().Add(2 * delay)
	messages[3].Headers = []kafka.Header{header("delaybridge-deliver-at", at.Format(time.RFC3339Nano)), header("DELAYBRIDGE-ID", "tombstone")}
	for n := range messages {
		messages[n].Topic = f.topic
	}
	began := time.Now()
	if err := f.writer.WriteMessages(context.Background(), messages...); err != nil {
		t.Fatal(err)
	}
	if parked, err := f.bridge.Get(context.Background(), client.Ref{ID: "tombstone", Key: []byte{}}); err != nil || parked.Key == nil || parked.Body != nil {
		t.Errorf("the tombstone is %+v, %v", parked, err)
	}
	due := map[int]time.Time{1: began.Add(delay), 3: at}
	arrived := make(map[int]bool)
	for range want { // on a slow machine what is due may overtake
		got, when := f.next()
		n := slices.IndexFunc(want, func(m kafka.Message) bool { return bytes.Equal(m.Value, got.Value) })
		if n < 0 || arrived[n] {
			t.Fatalf("unexpected or again: %q", got.Value)
		}
		arrived[n] = true
		headers := got.Headers // as they are: so it was not by way of the bridge
		if _, late := due[n]; late {
			headers = f.own(got)
		}
		f.check(want[n], got, headers)
		if when.Before(due[n]) {
			t.Errorf("number %d came %s early", n, due[n].Sub(when))
		}
	}
}

// TestCallsWithoutDelayAreTheWriters: not even its errors change.
func TestCallsWithoutDelayAreTheWriters(t *testing.T) {
	f := newFixture(t)
	large := kafka.Message{Topic: f.topic, Value: make([]byte, 2<<20)}
	var tooLarge kafka.MessageTooLargeError
	if err := f.writer.WriteMessages(context.Background(), kafka.Message{Topic: f.topic}, large); !errors.As(err, &tooLarge) || len(tooLarge.Remaining) != 1 {
		t.Errorf("got %v", err)
	}
	if err := f.writer.WriteMessages(context.Background()); err != nil {
		t.Errorf("no messages: %v", err)
	}
}

// TestPassedOnMessageIsNotDelayed: consumers pass on what the bridge has
// delivered with its headers, which must not delay it again nor be refused.
func TestPassedOnMessageIsNotDelayed(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	if err := f.writer.WriteMessages(ctx, kafka.Message{Topic: f.topic, Headers: []kafka.Header{header("delaybridge-delay", "1ms")}}); err != nil {
		t.Fatal(err)
	}
	first, _ := f.next()
	forwarded := kafka.Message{Topic: f.topic, Value: first.Value, Headers: first.Headers}
	if err := f.writer.WriteMessages(ctx, forwarded); err != nil {
		t.Fatal(err)
	}
	second, _ := f.next()
	f.check(forwarded, second, second.Headers)
	// To delay it again is another matter.
	for hop := range 2 {
		forwarded.Headers = append(forwarded.Headers, header("delaybridge-delay", "1ms"))
		if err := f.writer.WriteMessages(ctx, forwarded); err != nil {
			t.Fatal(err)
		}
		again, _ := f.next()
		if n := slices.IndexFunc(again.Headers, func(h kafka.Header) bool { return h.Key == "delaybridge-hop" }); n < 0 || string(again.Headers[n].Value) != strconv.Itoa(hop+1) {
			t.Errorf("hop %d: headers %q", hop, again.Headers)
		}
		forwarded.Headers = again.Headers
	}
}

func TestErrorsHaveASlotForEachMessage(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	delayed := func(m kafka.Message, headers ...kafka.Header) kafka.Message {
		m.Headers = append([]kafka.Header{header("delaybridge-delay", "1ms")}, headers...)
		return m
	}
	good, value := kafka.Message{Topic: f.topic, Value: []byte("good")}, []byte("late")
	err := f.writer.WriteMessages(ctx,
		good,
		delayed(kafka.Message{Topic: f.topic}, header("delaybridge-deliver-at", "2030-01-01T00:00:00Z")), // together
		delayed(kafka.Message{Topic: f.topic}, header("delaybridge-dely", "1ms")),                        // misspelt
		delayed(kafka.Message{Topic: "no good"}),
		delayed(kafka.Message{Topic: f.topic, Value: value}),
		delayed(kafka.Message{Topic: f.topic}, header("delaybridge-sink", "none")),
	)
	errs, ok := errors.AsType[kafka.WriteErrors](err)
	if !ok || len(errs) != 6 {
		t.Fatalf("got %v", err)
	}
	for n, want := range []error{nil, client.ErrInvalid, client.ErrInvalid, client.ErrInvalid, nil, client.ErrInvalid} {
		if !errors.Is(errs[n], want) {
			t.Errorf("slot %d is %v", n, errs[n])
		}
	}
	for _, want := range []string{"good", "late"} {
		if got, _ := f.next(); string(got.Value) != want {
			t.Errorf("got %q", got.Value)
		}
	}
	// What the Writer says of all it was given goes to these alone.
	large := kafka.Message{Topic: f.topic, Value: make([]byte, 2<<20)}
	errs, _ = errors.AsType[kafka.WriteErrors](f.writer.WriteMessages(ctx, large, delayed(kafka.Message{Topic: f.topic, Value: value})))
	var tooLarge kafka.MessageTooLargeError
	if len(errs) != 2 || !errors.As(errs[0], &tooLarge) || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	if got, _ := f.next(); string(got.Value) != string(value) {
		t.Errorf("got %q", got.Value)
	}
}

// TestHeadersSayWhereTo: id, topic and key may be in headers, and the Writer may
// have the topic.
func TestHeadersSayWhereTo(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	err := f.writer.WriteMessages(ctx, kafka.Message{Topic: "elsewhere", Key: []byte("x"), Headers: []kafka.Header{
		header("delaybridge-delay", "1h"), header("delaybridge-id", "mine"), header("delaybridge-topic", f.topic), header("delaybridge-key", "k")}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.bridge.Get(ctx, client.Ref{ID: "mine", Key: []byte("k")})
	if err != nil || got.Topic != f.topic || len(got.Headers) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	f.writer.Topic = f.topic
	delayed := kafka.Message{Headers: []kafka.Header{header("delaybridge-delay", "1h"), header("delaybridge-id", "other")}}
	if err := f.writer.WriteMessages(ctx, delayed); err != nil {
		t.Fatal(err)
	}
	if got, err := f.bridge.Get(ctx, client.Ref{ID: "other"}); err != nil || got.Topic != f.topic {
		t.Errorf("got %+v, %v", got, err)
	}
	delayed.Topic = f.topic
	if errs, _ := errors.AsType[kafka.WriteErrors](f.writer.WriteMessages(ctx, delayed)); len(errs) != 1 || errs[0] == nil {
		t.Errorf("two topics: got %v", errs)
	}
}
