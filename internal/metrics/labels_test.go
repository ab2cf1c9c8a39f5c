package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Nothing that a producer, a plugin or another program chooses makes a time series.
func TestLabelsAreBounded(t *testing.T) {
	m := New(Config{Topics: map[string][]string{"orders": {"listed"}}})
	now, o := time.Now(), m.Observer()
	tell := func(n int) {
		name, ctx := fmt.Sprint("made-up-", n), context.Background()
		message := &core.Message{ID: name, Sink: "orders", Topic: name, Key: []byte(name), Attempt: 1,
			Headers: []core.Header{{Name: "traceparent", Value: fmt.Appendf(nil, "00-%032x-%016x-01", n+1, n+1)}, {Name: name}}}
		o.Accepted(ctx, core.Acceptance{Input: "http", Began: now, Ended: now, Messages: []*core.Message{message, message, message, message},
			Receipts: []core.Receipt{{ID: name, Sink: "orders", Durability: "memory"}, {Sink: name, Err: core.Invalidf(name, "is %s", name)},
				{Sink: name, Err: errors.New(name)}, {Sink: name, Err: core.ErrConflict}}})
		o.Refused(ctx, core.Refusal{Input: "http", Reason: name})
		o.Changed(ctx, core.Change{Input: "http", Action: core.ActionCancel, Ref: core.Ref{Sink: name}, Err: errors.New(name)})
		var outcomes []core.Outcome
		for _, state := range []core.State{core.Delivered, core.Retrying, core.Dead, core.Expired} {
			outcomes = append(outcomes, core.Outcome{ID: name, State: state, Reason: name, Error: name})
		}
		o.Delivered(core.Delivery{Sink: "orders", Bucket: name, Outcomes: outcomes, Batch: core.Batch{Now: now, Local: now, Messages: []*core.Message{message}},
			Asked: now, Taken: now, Called: now, Returned: now, Settled: now})
	}
	tell(0)
	before := scrape(t, m)
	for n := range 500 {
		tell(n)
	}
	if after := scrape(t, m); len(after) != len(before) {
		t.Errorf("%d series became %d:\n%s", len(before), len(after), strings.Join(after, "\n"))
	}
	if text := strings.Join(scrape(t, m), "\n"); strings.Contains(text, "made-up") {
		t.Errorf("a name is a label:\n%s", text)
	}
	lint(t, m)
}

// What a reload adds has metrics, from then on.
func TestAdopt(t *testing.T) {
	m := New(Config{Topics: map[string][]string{"orders": nil, "gone": nil}})
	accept := func(sink, topic string) {
		m.Observer().Accepted(context.Background(), core.Acceptance{Input: "http", Messages: []*core.Message{{Topic: topic}}, Receipts: []core.Receipt{{Sink: sink}}})
	}
	refuse := func(sink string) {
		m.Observer().Accepted(context.Background(), core.Acceptance{Input: "http", Receipts: []core.Receipt{{Sink: sink, Err: core.ErrConflict}}})
	}
	accept("orders", "t")
	m.Adopt(map[string][]string{"orders": {"t"}, "added": {"t"}})
	accept("orders", "t")
	accept("orders", "other")
	refuse("added")
	refuse("gone")
	accept("added", "t")
	text := strings.Join(scrape(t, m), "\n")
	for _, line := range []string{
		`delaybridge_messages_accepted_total{input="http",sink="orders",topic=""} 2`,
		`delaybridge_messages_accepted_total{input="http",sink="orders",topic="t"} 1`,
		`delaybridge_messages_accepted_total{input="http",sink="added",topic="t"} 1`,
		`delaybridge_messages_delivered_total{sink="added",topic="t"} 0`,
		`delaybridge_refused_total{input="http",reason="conflict",sink="added"} 1`,
		`delaybridge_refused_total{input="http",reason="conflict",sink=""} 1`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}
