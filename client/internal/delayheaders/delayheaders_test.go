package delayheaders_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/delayheaders"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

func headers(pairs ...any) (list []dialect.Header) {
	for n := 0; n < len(pairs); n += 2 {
		list = append(list, dialect.Header{Name: pairs[n].(string), Value: pairs[n+1]})
	}
	return list
}

func TestRead(t *testing.T) {
	at := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second)
	ahead := at.Format(time.RFC3339)
	past, soon := time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(30*time.Second).Format(time.RFC3339)
	base := client.Message{Topic: "t", Key: []byte("k"), Body: []byte("b")}
	with := func(change func(*client.Message)) *client.Message {
		m := base
		m.Sink = "s"
		change(&m)
		return &m
	}
	tests := map[string]struct {
		headers []dialect.Header
		want    *client.Message // nil: not for the bridge
		rest    []int
		field   string // of the error
	}{
		"nothing":     {headers: headers("a", "1")},
		"delay":       {headers("a", "1", "Delaybridge_Delay", []byte("90s"), "b", "2"), with(func(m *client.Message) { m.Delay = 90 * time.Second }), []int{0, 2}, ""},
		"no delay":    {headers("delaybridge-delay", "0s"), with(func(m *client.Message) { m.Delay = client.Now }), []int{}, ""},
		"time":        {headers("delaybridge-deliver-at", ahead), with(func(m *client.Message) { m.DeliverAt = at }), []int{}, ""},
		"broker's":    {headers("x-delay", int64(5)), with(func(m *client.Message) { m.Delay = 5 * time.Millisecond }), []int{}, ""},
		"not enabled": {headers: headers("TIMER_DELAY_SEC", "5")},
		"all": {headers("delaybridge-delay", "1s", "delaybridge-id", "i", "delaybridge-sink", "s2", "delaybridge-topic", "t2", "delaybridge-key", "", "delaybridge-ttl", "1m", "delaybridge-priority", "3"),
			&client.Message{ID: "i", Sink: "s2", Topic: "t2", Key: []byte{}, Body: []byte("b"), Delay: time.Second, TTL: time.Minute, Priority: 3}, []int{}, ""},
		"only an ID":        {headers: headers("delaybridge-id", "i")},
		"over":              {headers: headers("x-delay", -5)},
		"misspelt":          {headers: headers("delaybridge-deley", "1s"), field: "headers"},
		"no unit":           {headers: headers("delaybridge-delay", "1"), field: "delaybridge-delay"},
		"twice":             {headers: headers("delaybridge-delay", "1s", "delaybridge-delay", "1s"), field: "delaybridge-delay"},
		"passed on":         {headers: headers("delaybridge-id", "i", "delaybridge-attempt", "1", "delaybridge-deliver-at", past)},
		"passed on at once": {headers: headers("delaybridge-id", "i", "Delaybridge_Attempt", "1", "delaybridge-deliver-at", soon)},
		"delayed again": {headers("delaybridge-id", "i", "a", "1", "delaybridge-attempt", "1", "delaybridge-delay", "1s", "delaybridge-deliver-at", past),
			with(func(m *client.Message) { m.Delay = time.Second }), []int{1, 0, 2, 4}, ""},
		"delayed again till": {headers("delaybridge-attempt", "1", "delaybridge-deliver-at", ahead), with(func(m *client.Message) { m.DeliverAt = at }), []int{0, 1}, ""},
	}
	rules := delayheaders.New("s", "rabbitmq")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := base
			rest, delayed, err := rules.Read(&m, test.headers)
			if e, _ := errors.AsType[*client.Error](err); err != nil && (!errors.Is(err, client.ErrInvalid) || e.Field != test.field) || (err != nil) != (test.field != "") {
				t.Fatalf("got error %v", err)
			}
			if delayed != (test.want != nil) {
				t.Fatalf("for the bridge: %t", delayed)
			}
			if !delayed {
				return
			}
			if diff := cmp.Diff(test.want, &m); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.rest, rest); diff != "" {
				t.Errorf("rest: %s", diff)
			}
		})
	}
	if !rules.Concern("X_Delay") || !rules.Concern("Delaybridge-anything") || rules.Concern("trace") {
		t.Error("Concern does not tell which headers matter")
	}
}
