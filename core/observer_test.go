package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// witness keeps what an Observer is told.
type witness struct {
	mu         sync.Mutex
	accepted   []core.Acceptance
	refused    []core.Refusal
	changed    []core.Change
	deliveries []core.Delivery
}

func (w *witness) observer() core.Observer {
	return core.Observer{
		Accepted:  func(_ context.Context, a core.Acceptance) { keep(w, &w.accepted, a) },
		Refused:   func(_ context.Context, r core.Refusal) { keep(w, &w.refused, r) },
		Changed:   func(_ context.Context, c core.Change) { keep(w, &w.changed, c) },
		Delivered: func(d core.Delivery) { keep(w, &w.deliveries, d) },
	}
}

func keep[T any](w *witness, all *[]T, one T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*all = append(*all, one)
}

// What happens to a message is told once, with its times, under the name of the input.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saw witness
		sink := &scripted{began: time.Now(), answer: func(batch []*core.Message) error {
			time.Sleep(30 * time.Millisecond)
			if batch[0].ID == "bad" {
				return core.Classify(core.Permanent, errors.New("never"))
			}
			return nil
		}}
		orders := &core.Dispatcher{Name: "orders", Sink: sink}
		b := core.NewBridge(memstore.New(memstore.Config{Buckets: 1}), core.Options{Observer: saw.observer()}, orders)
		defer runBridge(t, b)()
		synctest.Wait()
		began, in := time.Now(), b.For("http")
		in.Accept(t.Context(), message("good", time.Second), message("bad", 2*time.Second), &core.Message{ID: "no topic"})
		in.Refused(t.Context(), "malformed")
		if _, err := in.Cancel(t.Context(), core.Ref{ID: "absent"}); !errors.Is(err, core.ErrNotFound) {
			t.Error(err)
		}
		time.Sleep(1010 * time.Millisecond)
		if n := b.Local().Sinks[0].InFlight; n != 1 {
			t.Errorf("%d in flight during a call", n)
		}
		time.Sleep(2 * time.Second)
		if _, err := b.Redrive(t.Context(), core.Ref{ID: "bad"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)

		if n := b.Local().Sinks[0].InFlight; n != 0 {
			t.Errorf("%d in flight at the end", n)
		}
		saw.mu.Lock()
		defer saw.mu.Unlock()
		if len(saw.accepted) != 1 || saw.accepted[0].Input != "http" || len(saw.accepted[0].Messages) != 3 {
			t.Fatalf("accepted: %+v", saw.accepted)
		}
		if r := saw.accepted[0].Receipts; r[0].Err != nil || r[1].Err != nil || r[2].Err == nil || !saw.accepted[0].Ended.Equal(began) {
			t.Errorf("accepted: %+v", saw.accepted[0])
		}
		if want := []core.Refusal{{Input: "http", Reason: "malformed"}}; !slices.Equal(saw.refused, want) {
			t.Errorf("refused: %+v", saw.refused)
		}
		if c := saw.changed; len(c) != 2 || c[0].Action != core.ActionCancel || !errors.Is(c[0].Err, core.ErrNotFound) || c[0].Ref.Sink != "orders" ||
			c[1].Action != core.ActionRedrive || c[1].Err != nil || c[1].Input != "" {
			t.Errorf("changed: %+v", c)
		}
		var states []core.State
		for _, d := range saw.deliveries {
			if len(d.Messages) != 1 || len(d.Outcomes) != 1 || d.Err != nil || d.Sink != "orders" || d.Bucket == "" {
				t.Errorf("delivered: %+v", d)
				continue
			}
			states = append(states, d.Outcomes[0].State)
			if took := d.Returned.Sub(d.Called); took != 30*time.Millisecond || d.Asked.After(d.Taken) || d.Taken.After(d.Called) || d.Returned.After(d.Settled) {
				t.Errorf("times of %s: %+v", d.Messages[0].ID, d)
			}
		}
		if want := []core.State{core.Delivered, core.Dead, core.Dead}; !slices.Equal(states, want) {
			t.Errorf("states %v", states)
		}
		if late := saw.deliveries[0].Lateness(saw.deliveries[0].Messages[0]); late != 30*time.Millisecond {
			t.Errorf("late by %s", late)
		}
	})
}

// And tells both, and a function that only one has costs the other nothing.
func TestObserverAnd(t *testing.T) {
	var told []string
	of := func(name string) core.Observer {
		note := func(what string) { told = append(told, name+" "+what) }
		return core.Observer{
			Accepted:  func(context.Context, core.Acceptance) { note("accepted") },
			Refused:   func(context.Context, core.Refusal) { note("refused") },
			Changed:   func(context.Context, core.Change) { note("changed") },
			Delivered: func(core.Delivery) { note("delivered") },
		}
	}
	tell := func(o core.Observer) []string {
		told = nil
		o.Accepted(t.Context(), core.Acceptance{})
		o.Refused(t.Context(), core.Refusal{})
		o.Changed(t.Context(), core.Change{})
		o.Delivered(core.Delivery{})
		return told
	}
	want := []string{"a accepted", "b accepted", "a refused", "b refused", "a changed", "b changed", "a delivered", "b delivered"}
	if got := tell(of("a").And(of("b"))); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	alone := []string{"a accepted", "a refused", "a changed", "a delivered"}
	for _, o := range []core.Observer{of("a").And(core.Observer{}), core.Observer{}.And(of("a"))} {
		if got := tell(o); !slices.Equal(got, alone) {
			t.Errorf("told %q, want %q", got, alone)
		}
	}
	if none := (core.Observer{}).And(core.Observer{}); none.Accepted != nil || none.Refused != nil || none.Changed != nil || none.Delivered != nil {
		t.Error("two observers without functions have one")
	}
}
