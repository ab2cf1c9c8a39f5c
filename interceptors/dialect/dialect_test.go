package dialect

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func all(t testing.TB) *Set {
	t.Helper()
	s, err := New(Names()...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func one(name string, value any) []Header { return []Header{{name, value}} }

var at = time.Date(2031, 5, 20, 9, 30, 0, 250e6, time.UTC)

const (
	atText  = "2031-05-20T11:30:00.25+02:00"
	atMilli = 1937035800250
)

// TestEveryRow has at least one line for each header of the table.
func TestEveryRow(t *testing.T) {
	whole := at.Truncate(time.Second)
	tests := []struct {
		name  string
		value any
		want  core.Message
	}{
		{"delaybridge-deliver-at", atText, core.Message{DeliverAt: at}},
		{"Delaybridge_Deliver_At", []byte(atText), core.Message{DeliverAt: at}},
		{"delaybridge-deliver-at", at, core.Message{DeliverAt: at}},
		{"delaybridge-delay", "1d2h", core.Message{Delay: 26 * time.Hour}},
		{"delaybridge-delay", "P1DT2H", core.Message{Delay: 26 * time.Hour}},
		{"delaybridge-expires-at", atText, core.Message{ExpiresAt: at}},
		{"delaybridge-ttl", "90s", core.Message{TTL: 90 * time.Second}},
		{"delaybridge-id", "a-1", core.Message{ID: "a-1"}},
		{"delaybridge-sink", "out", core.Message{Sink: "out"}},
		{"delaybridge-topic", "orders", core.Message{Topic: "orders"}},
		{"delaybridge-key", "k", core.Message{Key: []byte("k")}},
		{"delaybridge-key", []byte{}, core.Message{Key: []byte{}}},
		{"delaybridge-priority", "9", core.Message{Priority: 9}},
		{"delaybridge-priority", int8(3), core.Message{Priority: 3}},
		{"x-delay", int64(1500), core.Message{Delay: 1500 * time.Millisecond}},
		{"X_DELAY", "1500", core.Message{Delay: 1500 * time.Millisecond}},
		{"x-delay", 1500.0, core.Message{Delay: 1500 * time.Millisecond}},
		{"x-delay", float32(0.25), core.Message{Delay: time.Millisecond}},
		{"x-delay", int64(1) << 32, core.Message{Delay: 1 << 32 * time.Millisecond}},
		{"x-opt-delivery-time", int64(atMilli), core.Message{DeliverAt: at}},
		{"x-opt-delivery-time", at, core.Message{DeliverAt: at}},
		{"x-opt-delivery-time", uint64(atMilli), core.Message{DeliverAt: at}},
		{"x-opt-scheduled-enqueue-time", at, core.Message{DeliverAt: at}},
		{"_AMQ_SCHED_DELIVERY", int64(atMilli), core.Message{DeliverAt: at}},
		{"x-opt-delivery-delay", uint32(5000), core.Message{Delay: 5 * time.Second}},
		{"AMQ_SCHEDULED_DELAY", "5000", core.Message{Delay: 5 * time.Second}},
		{"DELAY", "3", core.Message{Delay: 10 * time.Second}},
		{"TIMER_DELIVER_MS", "1937035800250", core.Message{DeliverAt: at}},
		{"TIMER_DELAY_MS", "1500", core.Message{Delay: 1500 * time.Millisecond}},
		{"TIMER_DELAY_SEC", "15", core.Message{Delay: 15 * time.Second}},
		{"Nats-Schedule", "@at " + atText, core.Message{DeliverAt: at}},
		{"Nats-Schedule-Target", "orders.eu", core.Message{Topic: "orders.eu"}},
		{"Nats-Msg-Id", "m1", core.Message{ID: "m1"}},
		{"scheduler-epoch", "1937035800", core.Message{DeliverAt: whole}},
		{"scheduler-target-topic", "orders", core.Message{Topic: "orders"}},
		{"scheduler-target-key", "k", core.Message{Key: []byte("k")}},
		{"X-Timebridge-When", atText, core.Message{DeliverAt: at}},
		{"X-Timebridge-Where", "orders", core.Message{Topic: "orders"}},
		{"ce-deliverat", atText, core.Message{DeliverAt: at}},          // HTTP, NATS
		{"ce_deliverat", []byte(atText), core.Message{DeliverAt: at}},  // Kafka
		{"cloudEvents:deliverat", at, core.Message{DeliverAt: at}},     // AMQP
		{"cloudEvents_deliverat", atText, core.Message{DeliverAt: at}}, // AMQP, JMS
		{"ce-deliverdelay", "PT90S", core.Message{Delay: 90 * time.Second}},
		{"cloudEvents:deliverdelay", "90s", core.Message{Delay: 90 * time.Second}},
		{"cloudEvents_deliverdelay", "90s", core.Message{Delay: 90 * time.Second}},
		{"ce_expirytime", atText, core.Message{ExpiresAt: at}},
		{"cloudEvents:expirytime", at, core.Message{ExpiresAt: at}},
		{"cloudEvents_expirytime", atText, core.Message{ExpiresAt: at}},
		{"retry_topic-backoff-timestamp", []byte{0x01, 0xc3, 0x00, 0x54, 0xae, 0xba}, core.Message{DeliverAt: at}},
		{"retry_topic-backoff-timestamp", []byte{0, 0, 0x01, 0xc3, 0x00, 0x54, 0xae, 0xba}, core.Message{DeliverAt: at}},
	}
	covered := make(map[string]bool)
	for _, test := range tests {
		covered[fold(test.name)] = true
		headers := []Header{{"before", nil}, {test.name, test.value}, {"after", 1}}
		var m core.Message
		found, err := all(t).Read(&m, headers)
		if err != nil {
			t.Errorf("%s: %v: %v", test.name, test.value, err)
			continue
		}
		if diff := cmp.Diff(test.want, m); diff != "" {
			t.Errorf("%s: %v: %s", test.name, test.value, diff)
		}
		if tagged := !m.DeliverAt.IsZero() || m.Delay > 0; found.Tagged != tagged || found.Over {
			t.Errorf("%s: %v: found %+v", test.name, test.value, found)
		}
		rest := []int{0, 2}
		if strings.HasSuffix(test.name, "expirytime") {
			rest = []int{0, 1, 2}
		}
		if !slices.Equal(found.Rest, rest) {
			t.Errorf("%s: rest is %v, want %v", test.name, found.Rest, rest)
		}
	}
	for _, r := range table {
		if !covered[fold(r.header)] && r.field != nothing && r.field != ttlOnceDue {
			t.Errorf("%s of %s is in no test", r.header, r.dialect)
		}
	}
}

// TestRefusals: every error is an *core.InvalidError that names the header.
func TestRefusals(t *testing.T) {
	type table map[string]any
	tests := []struct {
		name   string
		value  any
		reason string
	}{
		{"delaybridge-deliver-at", "2031-05-20T09:30:00", "RFC 3339"},
		{"delaybridge-deliver-at", "1937035800", "RFC 3339"},
		{"delaybridge-deliver-at", int64(atMilli), "must be text"},
		{"delaybridge-deliver-at", nil, "is null"},
		{"delaybridge-deliver-at", []byte(nil), "is null"},
		{"delaybridge-deliver-at", time.Time{}, "1970"},
		{"delaybridge-delay", "900", `write "900s"`},
		{"delaybridge-delay", int64(900), "must be text"},
		{"delaybridge-delay", "-5s", "sign"},
		{"delaybridge-ttl", "0s", "more than zero"},
		{"delaybridge-id", "", "is empty"},
		{"delaybridge-topic", "", "is empty"},
		{"delaybridge-sink", nil, "is null"},
		{"delaybridge-key", nil, "is null"},
		{"delaybridge-key", 5, "must be text"},
		{"delaybridge-priority", "10", "0 to 9"},
		{"delaybridge-priority", "-1", "0 to 9"},
		{"delaybridge-hop", "0", "from 1 on"},
		{"delaybridge-hop", "1e3", "from 1 on"},
		{"delaybridge-hop", "9999999999", "from 1 on"},
		{"x-delay", table{"a": 1}, "a number"},
		{"x-delay", []any{1}, "a number"},
		{"x-delay", true, "a number"},
		{"x-delay", nil, "is null"},
		{"x-delay", at, "a number"},
		{"x-delay", time.Second, "a number"},
		{"x-delay", "", "a number"},
		{"x-delay", "1.", "a number"},
		{"x-delay", ".5", "a number"},
		{"x-delay", "1.5.5", "a number"},
		{"x-delay", "1,5", "a number"},
		{"x-delay", strings.Repeat("0", 65), "a number"},
		{"x-delay", "9223372036854775807.5", "longer"},
		{"x-delay", " 5", "a number"},
		{"x-delay", "+5", "a number"},
		{"x-delay", "5s", "a number"},
		{"x-delay", "1e3", "a number"},
		{"x-delay", "--5", "a number"},
		{"x-delay", "9223372036854775808", "longer than can be counted"},
		{"x-delay", uint64(1) << 63, "longer than can be counted"},
		{"x-delay", math.Exp2(63), "longer than can be counted"},
		{"x-delay", int64(math.MaxInt64), "longer than can be counted"},
		{"x-delay", math.NaN(), "a number"},
		{"x-delay", math.Inf(-1), "a number"},
		{"x-opt-delivery-delay", int64(-1), "must not be negative"},
		{"x-opt-delivery-time", int64(-1), "1970 to 9999"},
		{"x-opt-delivery-time", int64(math.MaxInt64), "1970 to 9999"},
		{"AMQ_SCHEDULED_CRON", "* * * * *", "delivered once"},
		{"AMQ_SCHEDULED_PERIOD", 5, "delivered once"},
		{"AMQ_SCHEDULED_REPEAT", 5, "delivered once"},
		{"DELAY", "19", "1 to 18"},
		{"DELAY", "-1", "1 to 18"},
		{"DELAY", "10s", "a number"},
		{"TIMER_DELAY_SEC", "-1", "must not be negative"},
		{"TIMER_DELAY_SEC", "9223372037", "longer than can be counted"},
		{"Nats-Schedule", "@every 1h", "delivered once"},
		{"Nats-Schedule", "0 0 * * * *", "delivered once"},
		{"Nats-Schedule", "@at", "delivered once"},
		{"Nats-Schedule", "@at tomorrow", "RFC 3339"},
		{"Nats-Schedule-TTL", "5m", "needs a delivery time"},
		{"Nats-Schedule-Source", "a", "not supported"},
		{"Nats-Schedule-Rollup", "sub", "not supported"},
		{"Nats-Schedule-Time-Zone", "Europe/London", "not supported"},
		{"scheduler-epoch", "253402300800", "1970 to 9999"},
		{"X-Timebridge-When", "+1h", "RFC 3339"},
		{"ce_deliverat", "soon", "RFC 3339"},
		{"retry_topic-backoff-timestamp", "1937035800250", "not text"},
		{"retry_topic-backoff-timestamp", []byte("1937035800250"), "not text"},
		{"retry_topic-backoff-timestamp", []byte{}, "not text"},
		{"retry_topic-backoff-timestamp", []byte{0x80}, "1970 to 9999"},
		{"retry_topic-backoff-timestamp", []byte{0x7f, 1, 1, 1, 1, 1, 1, 1}, "1970 to 9999"},
	}
	for _, test := range tests {
		_, err := all(t).Read(new(core.Message), one(test.name, test.value))
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if !ok || fold(invalid.Field) != fold(test.name) || !strings.Contains(invalid.Reason, test.reason) {
			t.Errorf("%s: %v: got %v, want %q", test.name, test.value, err, test.reason)
		}
	}
}

// TestTogether: what may be said twice, and what may not.
func TestTogether(t *testing.T) {
	tests := map[string]struct {
		headers []Header
		want    string // the error; empty: none
	}{
		"time and delay":           {[]Header{{"delaybridge-deliver-at", atText}, {"delaybridge-delay", "1s"}}, "delaybridge-delay: can't be used together with delaybridge-deliver-at"},
		"in two dialects":          {[]Header{{"x-delay", 5}, {"ce-deliverat", atText}}, "x-delay: can't be used together with ce-deliverat"},
		"two times that agree":     {[]Header{{"delaybridge-deliver-at", atText}, {"x-opt-delivery-time", int64(atMilli)}, {"TIMER_DELIVER_MS", "1937035800250"}}, ""},
		"two times that do not":    {[]Header{{"delaybridge-deliver-at", atText}, {"x-opt-delivery-time", int64(atMilli + 1)}}, "x-opt-delivery-time: disagrees with delaybridge-deliver-at"},
		"two delays that agree":    {[]Header{{"x-delay", 5000}, {"delaybridge-delay", "5s"}, {"TIMER_DELAY_SEC", "5"}}, ""},
		"two delays that do not":   {[]Header{{"x-delay", 5000}, {"DELAY", "3"}}, "DELAY: disagrees with x-delay"},
		"two topics that do not":   {[]Header{{"X-Timebridge-Where", "a"}, {"scheduler-target-topic", "b"}}, "scheduler-target-topic: disagrees with X-Timebridge-Where"},
		"two keys that do not":     {[]Header{{"delaybridge-key", "a"}, {"scheduler-target-key", "b"}}, "scheduler-target-key: disagrees with delaybridge-key"},
		"two ids that agree":       {[]Header{{"delaybridge-id", "a"}, {"Nats-Msg-Id", "a"}}, ""},
		"twice":                    {[]Header{{"x-delay", 5}, {"x-delay", 5}}, "x-delay: appears twice"},
		"twice in two spellings":   {[]Header{{"ce-deliverat", atText}, {"CE_DeliverAt", atText}}, "ce-deliverat: appears twice"},
		"twice, the first is over": {[]Header{{"x-delay", -5}, {"x-delay", 5}}, "x-delay: appears twice"},
		"twice after another":      {[]Header{{"delaybridge-delay", "5ms"}, {"x-delay", 5}, {"x-delay", 5}}, "x-delay: appears twice"},
		"ttl and expiry":           {[]Header{{"delaybridge-ttl", "5s"}, {"ce-expirytime", atText}}, "delaybridge-ttl: can't be used together with ce-expirytime"},
		"two ttls":                 {[]Header{{"delaybridge-ttl", "5s"}, {"Nats-Schedule-TTL", "5s"}, {"Nats-Schedule", "@at " + atText}}, "Nats-Schedule-TTL: can't be used together with delaybridge-ttl"},
		"unknown, ours":            {[]Header{{"delaybridge-deliver_in", "5s"}}, `headers: have the name "delaybridge-deliver_in", which is not a known delaybridge header`},
		"unknown, ours, odd":       {[]Header{{"DELAYBRIDGE_\n", "5s"}}, `headers: have the name "DELAYBRIDGE_\n", which is not a known delaybridge header`},
	}
	for name, test := range tests {
		_, err := all(t).Read(new(core.Message), test.headers)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if _, ok := errors.AsType[*core.InvalidError](err); got != test.want || err != nil && !ok {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestLevels(t *testing.T) {
	want := strings.Fields("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
	for n, text := range want {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		var m core.Message
		if found, err := all(t).Read(&m, one("DELAY", n+1)); err != nil || m.Delay != d || !found.Tagged {
			t.Errorf("level %d: %s, %v, want %s", n+1, m.Delay, err, d)
		}
	}
	var m core.Message
	if found, err := all(t).Read(&m, one("DELAY", "0")); err != nil || found.Tagged || len(found.Rest) > 0 {
		t.Errorf("level 0: %+v, %v", found, err)
	}
}

// TestOver: a negative x-delay is no tag, but is taken off.
func TestOver(t *testing.T) {
	for _, value := range []any{int64(-1), "-5000", -1.5, int64(math.MinInt64), "-9223372036854775809", float64(math.MinInt64) * 4} {
		var m core.Message
		found, err := all(t).Read(&m, []Header{{"a", nil}, {"x-delay", value}})
		if err != nil || found.Tagged || !found.Over || !slices.Equal(found.Rest, []int{0}) || m.Delay != 0 {
			t.Errorf("%v: %+v, %v", value, found, err)
		}
	}
	var m core.Message
	found, err := all(t).Read(&m, []Header{{"x-delay", -1}, {"delaybridge-delay", "5s"}})
	if err != nil || !found.Tagged || found.Over || m.Delay != 5*time.Second {
		t.Errorf("with another delay: %+v, %v", found, err)
	}
	if found, err := all(t).Read(&m, one("x-delay", 0)); err != nil || !found.Tagged || found.Over {
		t.Errorf("zero: %+v, %v", found, err)
	}
}

func TestNATSTTL(t *testing.T) {
	for value, want := range map[any]time.Time{"5m": at.Add(5 * time.Minute), "300": at.Add(5 * time.Minute), "never": {}} {
		var m core.Message
		_, err := all(t).Read(&m, []Header{{"Nats-Schedule-TTL", value}, {"Nats-Schedule", "@at " + atText}})
		if err != nil || !m.ExpiresAt.Equal(want) {
			t.Errorf("%v: %s, %v", value, m.ExpiresAt, err)
		}
	}
	for _, value := range []any{"0", "0s", "-1", "soon", "", 1.5e300} {
		_, err := all(t).Read(new(core.Message), []Header{{"Nats-Schedule-TTL", value}, {"Nats-Schedule", "@at " + atText}})
		if err == nil {
			t.Errorf("%v passed", value)
		}
	}
}

// TestOthersAreLeftAlone: what no header names stays, and headers of dialects
// that are not enabled are headers like any other.
func TestOthersAreLeftAlone(t *testing.T) {
	s, err := New(Native)
	if err != nil {
		t.Fatal(err)
	}
	before := core.Message{ID: "i", Sink: "s", Topic: "t", Key: []byte("k"), Body: []byte("b"), Priority: 3}
	m := before
	found, err := s.Read(&m, []Header{{"x-delay", struct{}{}}, {"DELAY", "99"}, {"", nil}, {"ce_deliverat", 5}, {"x-delay", 5}})
	if err != nil || found.Tagged || len(found.Rest) != 5 {
		t.Errorf("%+v, %v", found, err)
	}
	if diff := cmp.Diff(before, m); diff != "" {
		t.Error(diff)
	}
	if s.Knows("x-delay") || !s.Knows("Delaybridge_delay") || !s.Knows("delaybridge-whatever") || s.Knows(strings.Repeat("x", 100)) {
		t.Error("Knows is wrong")
	}
}

func TestNew(t *testing.T) {
	if _, err := New("native", "jms"); err == nil || err.Error() != `dialects: have "jms", which is not known; known are native, rabbitmq, amqp1, rocketmq, nats, etf1, timebridge, cloudevents, spring` {
		t.Errorf("unknown: %v", err)
	}
	if _, err := New("native", "native"); err == nil {
		t.Error("one that appears twice passed")
	}
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Read(new(core.Message), one("delaybridge-delay", "1s")); err != nil || found.Tagged || len(found.Rest) != 1 {
		t.Errorf("without dialects: %+v, %v", found, err)
	}
}

// TestTable: no header is in two rows, and every name has room.
func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range table {
		if folded := fold(r.header); seen[folded] || len(folded) > longestName {
			t.Errorf("%s appears twice, or too long", r.header)
		}
		seen[fold(r.header)] = true
	}
}

// FuzzRead: no value makes Read panic, and what passes is what was asked for.
func FuzzRead(f *testing.F) {
	for _, r := range table {
		f.Add(r.header, []byte("1500"), "x-delay", int64(-1), 1.5, uint8(0))
		f.Add(r.header, []byte(atText), "other", int64(atMilli), -1.5, uint8(3))
		f.Add("Delaybridge_"+r.header, []byte("@at "+atText), r.header, int64(math.MaxInt64), math.Inf(1), uint8(2))
	}
	set := all(f)
	f.Fuzz(func(t *testing.T, first string, text []byte, second string, n int64, x float64, kind uint8) {
		kinds := []any{n, x, string(text), &text, nil, n > 0, time.UnixMilli(n), uint64(n), []any{n}}
		headers := []Header{{first, text}, {second, kinds[int(kind)%len(kinds)]}, {"plain", n}}
		var m core.Message
		found, err := set.Read(&m, headers)
		if err != nil {
			if _, ok := errors.AsType[*core.InvalidError](err); !ok || found.Tagged || found.Over {
				t.Fatalf("%T %v, %+v", err, err, found)
			}
			return
		}
		if m.Delay < 0 || m.TTL < 0 || !m.DeliverAt.IsZero() && m.Delay != 0 || found.Tagged && found.Over {
			t.Fatalf("%+v, %+v", m, found)
		}
		for _, at := range found.Rest {
			if name := headers[at].Name; set.Knows(name) && !strings.Contains(fold(name), "expirytime") {
				t.Fatalf("%q is passed on", name)
			}
		}
		if !slices.IsSorted(found.Rest) || !slices.Contains(found.Rest, 2) {
			t.Fatalf("rest is %v", found.Rest)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	value, delay := []byte("0123456789"), []byte("1h")
	headers := []Header{{"content-type", &value}, {"trace", &value}, {"delaybridge-delay", &delay}}
	set := all(b)
	b.ReportAllocs()
	for b.Loop() {
		var m core.Message
		if _, err := set.Read(&m, headers); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPublishedAgain: of a message that was delivered and published again, the
// headers that delivery has added say nothing but that, whatever dialects are on.
func TestPublishedAgain(t *testing.T) {
	past, ahead := "2026-01-02T15:04:05.000Z", time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	delivered := func(more ...any) (all []Header) {
		for pairs := append([]any{"a", "1", "delaybridge-id", "i", "Delaybridge_Attempt", "2", "delaybridge-deliver-at", past}, more...); len(pairs) > 0; pairs = pairs[2:] {
			all = append(all, Header{Name: pairs[0].(string), Value: pairs[1]})
		}
		return all
	}
	tests := map[string]struct {
		headers  []Header
		want     core.Message
		tagged   bool
		rest     []int
		delivery []int
	}{
		"untagged":       {delivered(), core.Message{Hop: 1}, false, []int{0}, []int{1, 2, 3}},
		"delay":          {delivered("delaybridge-delay", "5s"), core.Message{Hop: 1, Delay: 5 * time.Second}, true, []int{0}, []int{1, 2, 3}},
		"another's":      {delivered("x-delay", 5), core.Message{Hop: 1, Delay: 5 * time.Millisecond}, true, []int{0}, []int{1, 2, 3}},
		"third hop":      {delivered("x-delay", 5, "delaybridge-hop", []byte("2")), core.Message{Hop: 3, Delay: 5 * time.Millisecond}, true, []int{0}, []int{1, 2, 3, 5}},
		"a number":       {delivered("x-delay", 5, "delaybridge-hop", int64(2)), core.Message{Hop: 3, Delay: 5 * time.Millisecond}, true, []int{0}, []int{1, 2, 3, 5}},
		"a new id":       {delivered("x-delay", 5, "Nats-Msg-Id", "n"), core.Message{ID: "n", Hop: 1, Delay: 5 * time.Millisecond}, true, []int{0}, []int{1, 2, 3}},
		"over":           {delivered("x-delay", -5), core.Message{Hop: 1}, false, []int{0}, []int{1, 2, 3}},
		"only the hop":   {[]Header{{"delaybridge-hop", "1"}, {"delaybridge-delay", "5s"}}, core.Message{Hop: 2, Delay: 5 * time.Second}, true, []int{}, []int{0}},
		"a new time":     {[]Header{{"delaybridge-deliver-at", ahead.Format(core.TimeFormat)}, {"delaybridge-attempt", "1"}, {"x-delay", -5}}, core.Message{Hop: 1, DeliverAt: ahead}, true, []int{}, []int{0, 1}},
		"time and delay": {[]Header{{"delaybridge-deliver-at", ahead.Format(core.TimeFormat)}, {"delaybridge-attempt", "1"}, {"x-delay", 5}}, core.Message{Hop: 1, Delay: 5 * time.Millisecond}, true, []int{}, []int{0, 1}},
	}
	set, err := New("native", "rabbitmq", "nats")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		var m core.Message
		found, err := set.Read(&m, test.headers)
		if err != nil || found.Tagged != test.tagged || !slices.Equal(found.Rest, test.rest) || !slices.Equal(found.Delivery, test.delivery) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if diff := cmp.Diff(test.want, m); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	var m core.Message
	none, _ := New()
	if found, err := none.Read(&m, delivered("x-delay", 5)); err != nil || m.Hop != 1 || !slices.Equal(found.Rest, []int{0, 4}) {
		t.Errorf("without dialects: %+v, %v", found, err)
	}
}
