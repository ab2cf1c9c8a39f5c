package source

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

func interceptor(store core.Store, limits core.Limits) *core.Interceptor {
	return core.NewBridge(store, core.Options{Limits: limits}, &core.Dispatcher{Name: "out"}, &core.Dispatcher{Name: "other"}).Interceptor
}

var standard = []string{"native", "etf1", "rabbitmq"}

func newRules(t *testing.T, c Config, sources ...string) *Rules {
	t.Helper()
	r, err := NewRules(c, interceptor(memstore.New(memstore.Config{}), core.Limits{}), standard, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func headers(pairs ...string) (made []dialect.Header) {
	for n := 0; n < len(pairs); n += 2 {
		made = append(made, dialect.Header{Name: pairs[n], Value: pairs[n+1]})
	}
	return made
}

func TestConfig(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   string // the error; empty: none
	}{
		"least":                     {Config{Sink: "out", Topic: "orders"}, ""},
		"by headers alone":          {Config{AllowTargetHeaders: true}, ""},
		"template":                  {Config{Sink: "out", Topic: "{topic}", TrimSuffix: ".delayed"}, ""},
		"all":                       {Config{Sink: "out", Topic: "due.{topic}", Untagged: "delay", DefaultDelay: "5m", Dialects: []string{"nats"}}, ""},
		"no dialects":               {Config{Sink: "out", Topic: "orders", Dialects: []string{}, Untagged: "now"}, ""},
		"no sink":                   {Config{Topic: "orders"}, "sink: is missing"},
		"no topic":                  {Config{Sink: "out"}, "topic: is missing"},
		"other sink":                {Config{Sink: "nowhere", Topic: "orders"}, `sink: no sink has the name "nowhere"`},
		"other dialect":             {Config{Sink: "out", Topic: "orders", Dialects: []string{"jms"}}, `dialects: have "jms"`},
		"untagged":                  {Config{Sink: "out", Topic: "orders", Untagged: "later"}, "untagged: must be reject, now or delay"},
		"delay without default":     {Config{Sink: "out", Topic: "orders", Untagged: "delay"}, "default_delay: is missing"},
		"default without delay":     {Config{Sink: "out", Topic: "orders", DefaultDelay: "5m"}, "default_delay: applies to"},
		"default without a unit":    {Config{Sink: "out", Topic: "orders", Untagged: "delay", DefaultDelay: "5"}, `default_delay: has no unit`},
		"suffix without template":   {Config{Sink: "out", Topic: "orders", TrimSuffix: ".delayed"}, "trim_suffix: applies to"},
		"suffix that is not there":  {Config{Sink: "out", Topic: "{topic}", TrimSuffix: ".later"}, "trim_suffix: for the source"},
		"suffix that is all":        {Config{Sink: "out", Topic: "{topic}", TrimSuffix: "orders.delayed"}, "trim_suffix: for the source"},
		"delay from":                {Config{Sink: "out", Topic: "orders", DelayFrom: "producer"}, "delay_from: must be acceptance or record"},
		"loop":                      {Config{Sink: "out", Topic: "{topic}"}, "would be a loop"},
		"loop, allowed":             {Config{Sink: "out", Topic: "{topic}", AllowLoop: true}, ""},
		"system topic":              {Config{Sink: "out", Topic: "__{topic}"}, "is reserved for the broker"},
		"system topic, allowed":     {Config{Sink: "out", Topic: "amq.topic", AllowTopics: []string{"amq.topic"}}, ""},
		"system topic, one of them": {Config{Sink: "out", Topic: "amq.topic", AllowTopics: []string{"amq.direct", "__*"}}, "is reserved for the broker"},
	}
	for name, test := range tests {
		_, err := NewRules(test.config, interceptor(memstore.New(memstore.Config{}), core.Limits{}), standard, "orders.delayed")
		_, invalid := errors.AsType[*core.InvalidError](err)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!invalid || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestApply(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	at := soon.Format(time.RFC3339)
	fixed := Config{Sink: "out", Topic: "orders"}
	open := Config{AllowTargetHeaders: true}
	tests := map[string]struct {
		config  Config
		headers []dialect.Header
		want    core.Message
		err     string
	}{
		"tagged":              {fixed, headers("delaybridge-deliver-at", at), core.Message{ID: "id", Sink: "out", Topic: "orders", DeliverAt: soon}, ""},
		"own id and key":      {fixed, headers("delaybridge-delay", "1h", "delaybridge-id", "mine", "delaybridge-key", "k"), core.Message{ID: "mine", Sink: "out", Topic: "orders", Key: []byte("k"), Delay: time.Hour}, ""},
		"untagged":            {fixed, nil, core.Message{}, "deliver_at: is missing"},
		"untagged, now":       {Config{Sink: "out", Topic: "orders", Untagged: "now"}, nil, core.Message{ID: "id", Sink: "out", Topic: "orders"}, ""},
		"untagged, delay":     {Config{Sink: "out", Topic: "orders", Untagged: "delay", DefaultDelay: "5m"}, nil, core.Message{ID: "id", Sink: "out", Topic: "orders", Delay: 5 * time.Minute}, ""},
		"tagged, delay":       {Config{Sink: "out", Topic: "orders", Untagged: "delay", DefaultDelay: "5m"}, headers("delaybridge-delay", "0s"), core.Message{ID: "id", Sink: "out", Topic: "orders"}, ""},
		"over":                {Config{Sink: "out", Topic: "orders", Untagged: "delay", DefaultDelay: "5m"}, headers("x-delay", "-1"), core.Message{ID: "id", Sink: "out", Topic: "orders"}, ""},
		"over, reject":        {fixed, headers("x-delay", "-1"), core.Message{ID: "id", Sink: "out", Topic: "orders"}, ""},
		"template":            {Config{Sink: "out", Topic: "due.{topic}", TrimSuffix: ".delayed"}, headers("x-delay", "0"), core.Message{ID: "id", Sink: "out", Topic: "due.orders"}, ""},
		"same target":         {fixed, headers("x-delay", "0", "delaybridge-topic", "orders", "delaybridge-sink", "out"), core.Message{ID: "id", Sink: "out", Topic: "orders"}, ""},
		"other topic":         {fixed, headers("x-delay", "0", "scheduler-target-topic", "secrets"), core.Message{}, "topic: is set by a header, which needs allow_target_headers"},
		"other sink":          {fixed, headers("x-delay", "0", "delaybridge-sink", "other"), core.Message{}, "sink: is set by a header, which needs allow_target_headers"},
		"other both, allowed": {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "bills"), core.Message{ID: "id", Sink: "other", Topic: "bills"}, ""},
		"none, allowed":       {open, headers("x-delay", "0", "delaybridge-sink", "other"), core.Message{}, "topic: is set neither"},
		"kafka's own":         {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "__consumer_offsets"), core.Message{}, "is reserved for the broker"},
		"rabbitmq's own":      {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "amq.rabbitmq.reply-to"), core.Message{}, "is reserved for the broker"},
		"rocketmq's retries":  {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "%RETRY%x"), core.Message{}, "is reserved for the broker"},
		"rocketmq's dead":     {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "%DLQ%x"), core.Message{}, "is reserved for the broker"},
		"rocketmq's own":      {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "RMQ_SYS_TRANS_HALF_TOPIC"), core.Message{}, "is reserved for the broker"},
		"rocketmq's timer":    {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "SCHEDULE_TOPIC_XXXX"), core.Message{}, "is reserved for the broker"},
		"loop":                {open, headers("x-delay", "0", "delaybridge-sink", "other", "delaybridge-topic", "orders.delayed"), core.Message{}, "would be a loop"},
		"bad header":          {fixed, headers("x-delay", "soon"), core.Message{}, "x-delay: must be a number"},
		"seconds, not millis": {fixed, headers("delaybridge-deliver-at", "1970-01-20T00:00:00Z"), core.Message{}, "is more than 24h0m0s before the message was sent"},
	}
	for name, test := range tests {
		var m core.Message
		rest, err := newRules(t, test.config, "orders.delayed").Apply(&m, Source{Topic: "orders.delayed", ID: "id"}, append(test.headers, dialect.Header{Name: "own"}))
		if test.err != "" {
			if _, ok := errors.AsType[*core.InvalidError](err); !ok || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, m); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !slices.Equal(rest, []int{len(test.headers)}) {
			t.Errorf("%s: rest %v", name, rest)
		}
	}
}

// TestTimeOfSending: a time is too long ago only if it was when the record was
// written.
func TestTimeOfSending(t *testing.T) {
	r := newRules(t, Config{Sink: "out", Topic: "orders"})
	week := time.Now().Add(-7 * 24 * time.Hour)
	for _, test := range []struct {
		at, sent time.Time
		ok       bool
	}{
		{week, week.Add(-time.Hour), true},
		{week, week.Add(23 * time.Hour), true},
		{week, week.Add(25 * time.Hour), false},
		{week, time.Time{}, false},
		{time.Now().Add(-time.Hour), time.Time{}, true},
		{time.Now().Add(-time.Hour), time.Now().Add(30 * 24 * time.Hour), true}, // a producer's clock is wrong
	} {
		var m core.Message
		_, err := r.Apply(&m, Source{Topic: "t", ID: "id", Sent: test.sent}, headers("delaybridge-deliver-at", test.at.Format(time.RFC3339)))
		if (err == nil) != test.ok {
			t.Errorf("due %s, sent %s: %v", test.at, test.sent, err)
		}
	}
}

// TestDelayFrom: what a delay counts from, whatever is wrong with the time of the
// record.
func TestDelayFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hour = time.Hour
		now := time.Now()
		tests := map[string]struct {
			from, header, value string
			sent                time.Time
			want                core.Message // its times
		}{
			"acceptance":     {"acceptance", "delaybridge-delay", "2h", now.Add(-hour), core.Message{Delay: 2 * hour}},
			"by default":     {"", "delaybridge-delay", "2h", now.Add(-hour), core.Message{Delay: 2 * hour}},
			"record":         {"record", "delaybridge-delay", "2h", now.Add(-hour), core.Message{DeliverAt: now.Add(hour)}},
			"has passed":     {"record", "delaybridge-delay", "2h", now.Add(-3 * hour), core.Message{DeliverAt: now.Add(-hour)}},
			"not known":      {"record", "delaybridge-delay", "2h", time.Time{}, core.Message{Delay: 2 * hour}},
			"still to come":  {"record", "delaybridge-delay", "2h", now.Add(hour), core.Message{Delay: 2 * hour}},
			"too long":       {"record", "delaybridge-delay", "8761h", now.Add(-2 * hour), core.Message{Delay: 8761 * hour}},
			"none":           {"record", "delaybridge-delay", "0s", now.Add(-hour), core.Message{}},
			"a time instead": {"record", "delaybridge-deliver-at", now.Format(time.RFC3339), now.Add(-hour), core.Message{DeliverAt: now}},
			"untagged":       {"record", "other", "", now.Add(-hour), core.Message{DeliverAt: now.Add(4 * hour)}},
		}
		for name, test := range tests {
			r := newRules(t, Config{Sink: "out", Topic: "orders", Untagged: "delay", DefaultDelay: "5h", DelayFrom: test.from})
			var m core.Message
			_, err := r.Apply(&m, Source{Topic: "t", ID: "id", Sent: test.sent}, headers(test.header, test.value))
			r.CountFrom(&m, test.sent)
			if err != nil || m.Delay != test.want.Delay || !m.DeliverAt.Equal(test.want.DeliverAt) {
				t.Errorf("%s: delay %s, deliver_at %s, %v", name, m.Delay, m.DeliverAt, err)
			}
		}
	})
}

// TestLongPast: a delay that was over long before the record is read is parked for
// at once.
func TestLongPast(t *testing.T) {
	sent := time.Now().Add(-90 * 24 * time.Hour)
	store := memstore.New(memstore.Config{})
	r := newRules(t, Config{Sink: "out", Topic: "orders", DelayFrom: DelayFromRecord})
	m := &core.Message{}
	_, err := r.Apply(m, Source{Topic: "t", ID: "id", Sent: sent}, headers("delaybridge-delay", "1h"))
	r.CountFrom(m, sent)
	p := &Parker{In: interceptor(store, core.Limits{})}
	if err := errors.Join(err, p.Park(t.Context(), []Item{{Message: m}}, noReject, at)); err != nil || p.Report().Parked != 1 {
		t.Errorf("%v, %+v", err, p.Report())
	}
}

func TestDeniedIsACopy(t *testing.T) {
	Denied()[0] = "x"
	if Denied()[0] == "x" {
		t.Error("Denied can be changed")
	}
}

func TestIDOf(t *testing.T) {
	long := strings.Repeat("t", 120)
	ids := []string{
		PlaceID("k", "orders", "orders.delayed", "0"), PlaceID("k", "orders", "orders.delayed", "1"),
		PlaceID("k", "orders", long, "0"), PlaceID("k", "orders", long, "1"),
		PlaceID("r", "orders", "%RETRY%x", "0"), PlaceID("r", "orders", "%DLQ%x", "0"),
	}
	if ids[0] != "k:orders:orders.delayed:0" {
		t.Errorf("got %s", ids[0])
	}
	for n, id := range ids {
		if err := core.CheckID(id + ":9223372036854775807"); err != nil || slices.Index(ids, id) != n {
			t.Errorf("%s: %v", id, err)
		}
	}
}
