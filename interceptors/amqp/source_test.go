//go:build unix

package amqpsource

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// everything is a message with all that AMQP has.
func everything() amqp091.Publishing {
	return amqp091.Publishing{
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp091.Persistent, Priority: 7, CorrelationId: "c", ReplyTo: "answers",
		Expiration: "60000", MessageId: "id 1", Timestamp: time.Unix(1700000000, 0), Type: "t", AppId: "app", Body: []byte("\x00\xffbody"),
		Headers: amqp091.Table{
			"bool": true, "int8": int8(-1), "uint8": uint8(200), "int16": int16(-300), "uint16": uint16(60000), "int32": int32(-70000),
			"uint32": uint32(4000000000), "int64": int64(1) << 60, "float32": float32(0.1), "float64": 0.1, "decimal": amqp091.Decimal{Scale: 2, Value: -1234},
			"text": "ü", "not text": "\xff\x00", "empty": "", "time": time.Unix(1, 0), "bytes": []byte{0, 255}, "void": nil,
			"x-death": []any{amqp091.Table{"count": int64(3), "reason": "expired", "routing-keys": []any{"a", "b"}, "time": time.Unix(2, 0), "none": nil}},
			"table":   amqp091.Table{"deep": amqp091.Table{"deeper": []any{[]byte{1}, "\xfe", false, 1.5}}, "": ""},
		},
	}
}

func publishingOf(d amqp091.Delivery) amqp091.Publishing {
	return amqp091.Publishing{ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
		AppId: d.AppId, Body: d.Body, Headers: d.Headers}
}

// TestArrivesAsItWasSent: through the source, a store and the sink, and not early.
func TestArrivesAsItWasSent(t *testing.T) {
	r := newRig(t)
	in, out := r.queue(".delayed", nil), r.queue("", nil)
	r.bridge(nil, map[string]any{"queues": []string{in}, "topic": "{topic}", "trim_suffix": ".delayed"})
	const delay = time.Second
	p := everything()
	p.Headers["x-delay"] = delay.Milliseconds()
	began := time.Now()
	r.publish(in, p)
	d := r.take(r.channel, out)
	if early := delay - time.Since(began); early > 0 {
		t.Errorf("%s early", early)
	}
	if id := d.Headers[core.HeaderID]; id != "r:src:"+in+":="+hash("id 1") || d.Headers[core.HeaderAttempt] != "1" {
		t.Errorf("ID %q, attempt %q", id, d.Headers[core.HeaderAttempt])
	}
	want := everything()
	want.Headers["x-delay"] = int32(-delay.Milliseconds())
	got := publishingOf(d)
	for _, name := range []string{core.HeaderID, core.HeaderAttempt, core.HeaderDeliverAt} {
		delete(got.Headers, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.publish(in, delayed("", "", "x-delay", "1"))
	if d := r.take(r.channel, out); len(d.Body) > 0 || d.MessageId != "" || len(d.Headers) != 4 {
		t.Errorf("without anything: %+v", d)
	}
}

// TestRejected holds what the reject queue gets against what was published.
func TestRejected(t *testing.T) {
	r := newRig(t)
	in, rejects := r.queue(".delayed", nil), r.queue(".rejected", nil)
	untagged := everything()
	untagged.MessageId = "untagged"
	twin := delayed("same", "other body", "x-delay", int32(3_600_000))
	user := delayed("user", "", "x-delay", int32(1), "CC", []any{"elsewhere"})
	user.UserId = "guest"
	fat := delayed("fat", "fat")
	fat.Headers["fat"] = strings.Repeat("x", 126<<10)
	deep := any("leaf")
	for range 40 {
		deep = []any{deep}
	}
	messages := []struct {
		p       amqp091.Publishing
		reason  string
		leftOut any
	}{
		{untagged, "deliver_at: is missing", "expiration"},
		{delayed("twice", "", "x-delay", int32(1), "X-Delay", int32(1)), "appears twice", nil},
		{delayed("both", "", "x-delay", int32(1), "delaybridge-deliver-at", "2100-01-01T00:00:00Z"), "can't be used together", nil},
		{delayed("table", "", "x-delay", amqp091.Table{"a": int32(1)}), "x-delay: must be a number", nil},
		{delayed("far", "", "x-delay", int64(1)<<40), "delay: is more than", nil},
		{delayed("system", "", "x-delay", int32(1), "delaybridge-topic", "amq.direct"), "is reserved for the broker", nil},
		{delayed("loop", "", "x-delay", int32(1), "delaybridge-topic", in), "is read by this source", nil},
		{delayed("large", string(make([]byte, 10<<20)), "x-delay", int32(1)), "body: is larger than 262144 bytes", nil},
		{fat, "deliver_at: is missing", "headers"},
		{delayed("deep", "deep", "x-delay", int32(1), "deep", deep), "headers: can't be read", "headers"},
		{delayed("long", "long", "x-delay", int32(1), "long", make([]any, 9000)), "headers: can't be read", "headers"},
		{twin, core.ErrConflict.Error(), nil},
		{delayed("returned", "", "delaybridge-attempt", "1", "delaybridge-deliver-at", "2026-01-02T15:04:05.000Z"), "deliver_at: is missing", nil},
		{delayed("circling", "", "x-delay", int32(1), "delaybridge-attempt", "1", "delaybridge-hop", "1000"), "limits.max_hops", nil},
		{delayed("name", "", "x-delay", int32(1), "", "empty"), "headers: have an empty name", nil},
	}
	r.publish(in, delayed("same", "body", "x-delay", int32(3_600_000)))
	for _, m := range messages {
		r.publish(in, m.p)
	}
	r.publish(in, delayed("good", "good", "x-delay", int32(3_600_000)))
	src := r.run(r.source(map[string]any{"queues": []string{in}, "reject_queue": rejects, "allow_target_headers": true}))
	check := func(p amqp091.Publishing, reason string, leftOut any) {
		t.Helper()
		d := r.take(r.channel, rejects)
		if text, _ := d.Headers["delaybridge-reject-reason"].(string); !strings.Contains(text, reason) {
			t.Errorf("%s: reason %q, want %q", p.MessageId, text, reason)
		}
		if d.Headers["delaybridge-source-queue"] != in || d.Headers["delaybridge-source-routing-key"] != in || d.Headers["delaybridge-source-exchange"] != "" || d.Headers["delaybridge-reject-left-out"] != leftOut {
			t.Errorf("%s: %v", p.MessageId, d.Headers["delaybridge-reject-left-out"])
		}
		for _, name := range []string{headerReason, headerLeftOut, headerQueue, headerExchange, headerRoutingKey} {
			delete(d.Headers, name)
		}
		got := publishingOf(d)
		if leftOut == "headers" {
			p.Headers = amqp091.Table{}
		}
		p.Expiration, p.UserId = "", ""
		if !bytes.Equal(p.Body, got.Body) {
			t.Errorf("%s: body of %d bytes became %d", p.MessageId, len(p.Body), len(got.Body))
		}
		p.Body, got.Body = nil, nil
		if diff := cmp.Diff(p, got); diff != "" {
			t.Errorf("%s: %s", p.MessageId, diff)
		}
	}
	for _, m := range messages {
		check(m.p, m.reason, m.leftOut)
	}
	if parked := r.store.Await(t, 2); string(parked[0].Body) != "body" || string(parked[1].Body) != "good" {
		t.Errorf("parked %q and %q", parked[0].Body, parked[1].Body)
	}
	// What has more routing keys, or a user, comes without them.
	r.publish(in, user)
	user.Headers = maps.Clone(user.Headers)
	delete(user.Headers, "CC")
	check(user, "user_id: can't be passed on", "CC,user_id")
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if report := src.Report(); report.Rejected != uint64(len(messages))+1 || report.Parked != 2 {
		t.Errorf("%+v", report)
	}
	if n := r.ready(in); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestRejectExchange keeps the routing key.
func TestRejectExchange(t *testing.T) {
	r := newRig(t)
	in, rejects := r.queue(".delayed", nil), r.queue(".rejected", nil)
	if err := errors.Join(r.channel.ExchangeDeclare(r.name, "direct", true, false, false, false, nil), r.channel.QueueBind(rejects, in, r.name, false, nil)); err != nil {
		t.Fatal(err)
	}
	r.publish(in, delayed("bad", "bad"))
	r.run(r.source(map[string]any{"queues": []string{in}, "reject_exchange": r.name}))
	if d := r.take(r.channel, rejects); string(d.Body) != "bad" || d.RoutingKey != in {
		t.Errorf("%+v", d)
	}
}

// TestNoPlaceForRejected: while the reject queue is missing, or takes nothing,
// the source keeps the message.
func TestNoPlaceForRejected(t *testing.T) {
	r := newRig(t)
	in, rejects := r.queue(".delayed", nil), r.name+".rejected"
	r.publish(in, delayed("good", "good", "x-delay", int32(3_600_000)))
	src := r.run(r.source(map[string]any{"queues": []string{in}, "reject_queue": rejects}))
	channel := r.open(r.URL())
	time.Sleep(300 * time.Millisecond) // it can't be told from not having tried
	if n := r.ready(in); n != 1 || src.Report().Parked > 0 {
		t.Errorf("it began without the reject queue: %d messages are left", n)
	}
	if _, err := channel.QueueDeclare(rejects, true, false, false, false, amqp091.Table{"x-max-length": 0, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	r.store.Await(t, 1)
	r.publish(in, delayed("bad", "bad"))
	poll.Until(t, time.Minute, "tries", func() bool { return src.Report().Retried >= 2 })
	if src.Report().Rejected > 0 {
		t.Error("it counts as rejected")
	}
	if _, err := channel.QueueDelete(rejects, false, false, false); err != nil {
		t.Fatal(err)
	}
	before := src.Report().Retried
	poll.Until(t, time.Minute, "tries without the queue", func() bool { return src.Report().Retried >= before+2 })
	r.queue(".rejected", nil)
	if d := r.take(r.channel, rejects); string(d.Body) != "bad" {
		t.Errorf("%+v", d)
	}
	poll.Until(t, time.Minute, "the count", func() bool { return src.Report().Rejected == 1 })
}

// TestStopsLoudly: without a reject queue a bad message ends the source, and
// stays where it is, while what came before it does not come again.
func TestStopsLoudly(t *testing.T) {
	r := newRig(t)
	in, idle := r.queue(".delayed", nil), r.queue(".idle", nil)
	r.publish(in, delayed("a", "good", "x-delay", int32(3_600_000)), delayed("b", "bad", "x-delay", int32(1), "delaybridge-delay", "1s"), delayed("c", "good too", "x-delay", int32(3_600_000)))
	for range 2 { // it does not come to pass by itself
		src := r.run(r.source(map[string]any{"queues": []string{in, idle}}))
		<-src.Ended
		refused, ok := errors.AsType[*source.RefusedError](src.Err)
		if !ok || refused.ID != "r:src:"+in+":b" || !strings.Contains(src.Err.Error(), in) {
			t.Fatalf("Run returned %v", src.Err)
		}
	}
	// What came after it may have been in the same batch.
	parked := r.store.Await(t, 1)
	if string(parked[0].Body) != "good" {
		t.Errorf("parked %q", parked[0].Body)
	}
	poll.Until(t, time.Minute, "the others left", func() bool { return r.ready(in) == 3-len(parked) })
}
