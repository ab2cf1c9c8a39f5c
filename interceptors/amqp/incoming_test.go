package amqpsource

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// offline makes a source that is not run.
func offline(t testing.TB, more map[string]any) *Source {
	t.Helper()
	c := map[string]any{"urls": []string{"amqp://127.0.0.1/"}, "sink": "out", "queues": []string{"in"}, "topic": "orders", "on_bad_record": "stop"}
	maps.Copy(c, more)
	for name, value := range c {
		if value == nil {
			delete(c, name)
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	i, err := New("src", raw, core.NewBridge(sourcetest.NewStore(), core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func with(name string, value any) amqp091.Delivery {
	return amqp091.Delivery{Headers: amqp091.Table{name: value}, MessageId: "1"}
}

// TestXDelay is what the plugin's header may hold, and what is left of it.
func TestXDelay(t *testing.T) {
	tests := []struct {
		value   any
		delay   time.Duration
		left    string // the option x_delay
		refusal string // part of the reason
	}{
		{int32(5000), 5 * time.Second, "-5000", ""},
		{int64(math.MaxUint32), math.MaxUint32 * time.Millisecond, "-4294967295", ""},
		{int8(7), 7 * time.Millisecond, "-7", ""}, {uint8(7), 7 * time.Millisecond, "-7", ""}, {uint16(7), 7 * time.Millisecond, "-7", ""},
		{"5000", 5 * time.Second, "S-5000", ""}, {[]byte("5000"), 5 * time.Second, "x-5000", ""},
		{1500.25, 1501 * time.Millisecond, "d-1500.25", ""}, {float32(0.5), time.Millisecond, "f-0.5", ""},
		{"1500.5", 1501 * time.Millisecond, "S-1500.5", ""}, {"0.0001", time.Millisecond, "S-0.0001", ""}, {"007.00", 7 * time.Millisecond, "S-007.00", ""},
		{amqp091.Decimal{Scale: 1, Value: 15005}, 1501 * time.Millisecond, "D-15005e-1", ""}, {amqp091.Decimal{Scale: 3, Value: 7}, time.Millisecond, "D-7e-3", ""},
		{amqp091.Decimal{Value: 9}, 9 * time.Millisecond, "D-9e-0", ""}, {amqp091.Decimal{Scale: 2, Value: -150}, 0, "D-150e-2", ""},
		{int32(0), 0, "0", ""}, {"0", 0, "S0", ""}, {-0.5, 0, "d-0.5", ""}, {"-0.5", 0, "S-0.5", ""}, {"0.0", 0, "S0.0", ""},
		{int32(-5000), 0, "-5000", ""}, {"-5000", 0, "S-5000", ""}, {int64(math.MinInt64), 0, "-9223372036854775808", ""},
		{-1e300, 0, "d-1e+300", ""}, {"-99999999999999999999", 0, "S-99999999999999999999", ""},
		{"9223372036854775808", 0, "", "x-delay: is longer"}, {math.Inf(1), 0, "", "x-delay: must be"}, {math.NaN(), 0, "", "x-delay: must be"},
		{"5s", 0, "", "x-delay: must be a number"}, {"", 0, "", "x-delay: must be"}, {nil, 0, "", "x-delay: is null"}, {true, 0, "", "x-delay: must be"},
		{amqp091.Table{"a": 1}, 0, "", "x-delay: must be"}, {[]any{int32(1)}, 0, "", "x-delay: must be"},
		{amqp091.Decimal{Scale: 100, Value: 50}, 0, "", "x-delay: must be"}, {time.Unix(1, 0), 0, "", "x-delay: must be"},
	}
	i := offline(t, nil)
	removing := offline(t, map[string]any{"x_delay_compat": "remove"})
	for _, tt := range tests {
		for _, name := range []string{"x-delay", "X_Delay"} {
			d := with(name, tt.value)
			item := i.sources[0].item(&d)
			switch {
			case tt.refusal != "":
				if item.Err == nil || !strings.Contains(item.Err.Error(), tt.refusal) {
					t.Errorf("%#v: %v, want %q", tt.value, item.Err, tt.refusal)
				}
			case item.Err != nil || item.Message.Delay != tt.delay || item.Message.Options["x_delay"] != tt.left || len(item.Message.Headers) > 0:
				t.Errorf("%#v: %v, %+v, want %s and %s left", tt.value, item.Err, item.Message, tt.delay, tt.left)
			}
			if item := removing.sources[0].item(&d); item.Message.Options["x_delay"] != "" {
				t.Errorf("%#v: left %s", tt.value, item.Message.Options["x_delay"])
			}
		}
	}
}

func full() amqp091.Delivery {
	return amqp091.Delivery{
		Headers: amqp091.Table{"x-delay": int32(1000), "b": int32(2), "a": "text", "none": nil, "x-delivery-count": int64(3), "x-acquired-count": int64(3),
			"t": amqp091.Table{"k": []any{int64(1), "\xff", []byte{0}, nil, true}}, "z": "last"},
		ContentType: "text/plain", ContentEncoding: "gzip", Priority: 12, CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "4 2",
		Timestamp: time.Unix(1700000000, 0), Type: "t", AppId: "app", RoutingKey: "k", Exchange: "e",
	}
}

func TestProperties(t *testing.T) {
	d := full()
	item := offline(t, nil).sources[0].item(&d)
	if item.Err != nil {
		t.Fatal(item.Err)
	}
	want := &core.Message{ID: "r:src:in:=" + hash("4 2"), Sink: "out", Topic: "orders", Body: []byte{}, Delay: time.Second, Priority: core.MaxPriority,
		Headers: []core.Header{{Name: "a", Value: []byte("text")}, {Name: "b", Value: []byte("2")}, {Name: "none"},
			{Name: "t", Value: []byte(`{"k":["A",[["l","1"],["Sx","/w=="],["x","AA=="],["V"],["t","true"]]]}`)}, {Name: "z", Value: []byte("last")}},
		Options: map[string]string{"content_type": "text/plain", "content_encoding": "gzip", "type": "t", "app_id": "app", "correlation_id": "c",
			"reply_to": "r", "expiration_ms": "60000", "message_id": "4 2", "priority": "12", "timestamp": "1700000000", "header_types": "SISF", "x_delay": "-1000"}}
	if diff := cmp.Diff(want, item.Message); diff != "" {
		t.Error(diff)
	}
	d = full()
	item = offline(t, map[string]any{"properties": "headers"}).sources[0].item(&d)
	added := item.Message.Headers[5:]
	if item.Err != nil || item.Message.Options != nil || len(added) != 7 || added[0].Name != "content-type" || string(added[6].Value) != "60000" {
		t.Errorf("%v, %+v", item.Err, item.Message)
	}
	item = offline(t, map[string]any{"properties": "none"}).sources[0].item(&d)
	if item.Err != nil || item.Message.Options != nil || len(item.Message.Headers) != 5 {
		t.Errorf("%v, %+v", item.Err, item.Message)
	}
}

// TestDelayFromTimestamp: the property has whole seconds, and counts as their end.
func TestDelayFromTimestamp(t *testing.T) {
	s := offline(t, map[string]any{"delay_from": "record"}).sources[0]
	sent := time.Now().Add(-time.Minute).Truncate(time.Second)
	for name, test := range map[string]struct {
		sent time.Time
		want core.Message
	}{
		"a minute ago": {sent, core.Message{DeliverAt: sent.Add(time.Hour + time.Second)}},
		"missing":      {time.Time{}, core.Message{Delay: time.Hour}},
		"zero":         {time.Unix(0, 0), core.Message{Delay: time.Hour}},
		"this second":  {sent.Add(time.Hour), core.Message{Delay: time.Hour}},
	} {
		d := with("x-delay", int32(time.Hour/time.Millisecond))
		d.Timestamp = test.sent
		m := s.item(&d).Message
		if m.Delay != test.want.Delay || !m.DeliverAt.Equal(test.want.DeliverAt) || m.Options["x_delay"] != "-3600000" {
			t.Errorf("%s: delay %s, deliver_at %s, %q", name, m.Delay, m.DeliverAt, m.Options)
		}
	}
}

// TestSameAgain: a message that is delivered again must not conflict with itself.
func TestSameAgain(t *testing.T) {
	s := offline(t, nil).sources[0]
	first, again := full(), full()
	again.Redelivered, again.DeliveryTag = true, 77
	again.Headers["x-delivery-count"] = int64(9)
	delete(first.Headers, "x-acquired-count")
	if diff := cmp.Diff(s.item(&first).Message, s.item(&again).Message); diff != "" {
		t.Error(diff)
	}
}

func TestIDs(t *testing.T) {
	long := strings.Repeat("q", 200)
	tests := []struct{ queue, messageID, want string }{
		{"in", "a:b/1", "r:src:in:a:b/1"},
		{"in", "ü", "r:src:in:=" + hash("ü")},
		{"in", long, "r:src:in:=" + hash(long)},
		{"a:b", "c", "r:src:=" + hash("a:b") + ":c"}, // not that of b:c in a
		{long, "c", "r:src:=" + hash(long) + ":c"},
		{"in", "", ""},
	}
	for _, tt := range tests {
		d := with("x-delay", int32(1))
		d.MessageId = tt.messageID
		item := offline(t, map[string]any{"queues": []string{tt.queue}}).sources[0].item(&d)
		if item.Err != nil || item.Message.ID != tt.want {
			t.Errorf("%q of %q: %v, %q, want %q", tt.messageID, tt.queue, item.Err, item.Message.ID, tt.want)
		}
	}
	d := with("x-delay", int32(1))
	d.Headers["delaybridge-id"] = "mine"
	if item := offline(t, nil).sources[0].item(&d); item.Message.ID != "mine" || item.Message.Options["message_id"] != "1" {
		t.Errorf("%+v", item.Message)
	}
}

func TestRefusedAsTheyCome(t *testing.T) {
	deep := any("leaf")
	for range maxFieldDepth + 1 {
		deep = []any{deep}
	}
	user := with("x-delay", int32(1))
	user.UserId = "guest"
	unnamed := with("x-delay", int32(1))
	unnamed.MessageId = ""
	tests := []struct {
		name     string
		d        amqp091.Delivery
		settings map[string]any
		reason   string // empty: not refused
	}{
		{"no time", with("other", 1), nil, "deliver_at: is missing"},
		{"no time, at once", with("other", int32(1)), map[string]any{"untagged": "now"}, ""},
		{"no time, for an exchange", with("other", int32(1)), map[string]any{"queues": nil, "topic": nil, "exchanges": []any{map[string]any{"name": "a", "to": "b"}}}, ""},
		{"rabbitmq not enabled", with("x-delay", int32(1)), map[string]any{"dialects": []string{"native"}}, "deliver_at: is missing"},
		{"deep", with("deep", deep), map[string]any{"untagged": "now"}, "nest too deep"},
		{"unknown type", with("n", uint64(1)), map[string]any{"untagged": "now"}, "unknown type"},
		{"user", user, nil, "user_id: can't be passed on"},
		{"user dropped", user, map[string]any{"drop_user_id": true}, ""},
		{"no ID", unnamed, nil, ""},
		{"no ID, required", unnamed, map[string]any{"require_message_id": true}, "message_id: is missing"},
		{"target by header", with("delaybridge-topic", "other"), nil, "allow_target_headers"},
		{"system topic", with("delaybridge-topic", "amq.direct"), map[string]any{"allow_target_headers": true}, "is reserved for the broker"},
		{"loop", with("delaybridge-topic", "in"), map[string]any{"allow_target_headers": true}, "loop"},
		{"the default exchange", with("delaybridge-topic", ""), map[string]any{"allow_target_headers": true}, "is empty"},
	}
	for _, tt := range tests {
		item := offline(t, tt.settings).sources[0].item(&tt.d)
		if (item.Err == nil) != (tt.reason == "") || item.Err != nil && !strings.Contains(item.Err.Error(), tt.reason) {
			t.Errorf("%s: %v, want %q", tt.name, item.Err, tt.reason)
		}
	}
}

func TestExchangeOptions(t *testing.T) {
	s := offline(t, map[string]any{"queues": nil, "topic": nil, "exchanges": []any{map[string]any{"name": "a", "to": "b"}}, "allow_target_headers": true}).sources[0]
	tests := []struct {
		key, named string
		topic      string
		option     any // routing_key
	}{
		{"k", "", "k", nil}, {"", "", "b", ""}, {"ü", "", "b", "ü"}, {"amq.x", "", "b", "amq.x"}, {"a b", "", "b", "a b"},
		{"k", "other", "other", nil}, {"", "other", "other", nil},
	}
	for _, tt := range tests {
		d := with("x-delay", int32(1))
		d.RoutingKey = tt.key
		if tt.named != "" {
			d.Headers["delaybridge-topic"] = tt.named
		}
		item := s.item(&d)
		option, ok := item.Message.Options["routing_key"]
		if item.Err != nil || item.Message.Topic != tt.topic || item.Message.Options["exchange"] != "b" || ok != (tt.option != nil) || ok && option != tt.option {
			t.Errorf("%+v: %v, %+v", tt, item.Err, item.Message)
		}
	}
}

// TestPortions: however large rejected messages are, each has time to be
// confirmed.
func TestPortions(t *testing.T) {
	batch := make([]amqp091.Delivery, 6)
	for n, size := range []int{10 << 20, 1 << 20, 3 << 20, 1, 0, 4 << 20} {
		batch[n].Body = make([]byte, size)
	}
	rejected := []source.Rejection{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}, {Index: 4}, {Index: 5}}
	for _, want := range []int{1, 2, 2, 1} {
		if got := portion(batch, rejected); got != want {
			t.Errorf("%d, want %d", got, want)
		}
		rejected = rejected[want:]
	}
}

// FuzzItem: whatever comes becomes a message or a refusal, and what becomes a
// message keeps its body.
func FuzzItem(f *testing.F) {
	f.Add("x-delay", "5000", int64(1), "id", "key", []byte("body"))
	f.Add("x_delay", "-1", int64(math.MinInt64), "", "", []byte(nil))
	f.Add("delaybridge-deliver-at", "2026-01-02T03:04:05Z", int64(0), "\xff", "\x00", []byte{0})
	s := offline(f, map[string]any{"untagged": source.UntaggedNow}).sources[0]
	f.Fuzz(func(t *testing.T, name, text string, number int64, id, key string, body []byte) {
		for _, value := range []any{text, number, float64(number), int32(number), []any{text, amqp091.Table{name: number}}} {
			d := amqp091.Delivery{Headers: amqp091.Table{name: value, "x-delay": number}, MessageId: id, RoutingKey: key, Body: body}
			item := s.item(&d)
			if item.Err == nil && string(item.Message.Body) != string(body) {
				t.Errorf("body is %q", item.Message.Body)
			}
			if m := item.Message; m.ID != "" && core.CheckID(m.ID) != nil && name == "x-delay" {
				t.Errorf("ID %q", m.ID)
			}
		}
	})
}
