package storetest

import (
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func dedupeRules() []rule {
	return []rule{
		{"what is settled is remembered", settledIsRemembered},
		{"a generated id is not remembered", generatedIsForgotten},
		{"a window of zero is off", windowOff},
		{"a memory ends with its window", windowEnds},
	}
}

// settleEach parks three messages and lets each end in its own way.
func settleEach(t *suite, store core.Store, o *owner) {
	park(t, store, message("delivered"))
	o.finish("delivered", delivered(""))
	park(t, store, message("cancelled", later()))
	if _, err := store.Cancel(patient(t), ref("cancelled")); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	discarded(t, store, o, "discarded")
}

// discarded parks a message, which o gives up, and discards it.
func discarded(t *suite, store core.Store, o *owner, id string) {
	park(t, store, message(id))
	o.finish(id, deadLetter("", 1))
	if r, err := store.Discard(patient(t), ref(id)); err != nil || r.ID != id || r.Sink != Sink || r.State != core.Discarded {
		t.Fatalf("discard: receipt %+v, err %v", r, err)
	}
}

func settledIsRemembered(t *suite) {
	store := t.open(1)
	settleEach(t, store, own(t, store, Sink, 1))
	for name, state := range map[string]core.State{"delivered": core.Delivered, "cancelled": core.Cancelled, "discarded": core.Discarded} {
		for _, m := range []*core.Message{message(name), message(name, topic("other"))} {
			r := parkAgain(t, store, m)
			if state == core.Cancelled {
				if !errors.Is(r.Err, core.ErrCancelled) || r.Duplicate || r.State != state || r.ID != name || r.Sink != Sink {
					t.Errorf("%s again: %+v, want %v", name, r, core.ErrCancelled)
				}
				continue
			}
			if r.Err != nil || !r.Duplicate || r.State != state || r.ID != name || r.Sink != Sink || !r.DeliverAt.IsZero() {
				t.Errorf("%s again: %+v, want a duplicate that is %s", name, r, state)
			}
		}
		entry := get(t, store, ref(name))
		if entry.State != state || entry.Message.ID != name || entry.Message.Sink != Sink || entry.Message.Body != nil {
			t.Errorf("get %s: %+v", name, entry)
		}
		if off := time.Since(entry.Due).Abs(); off > time.Minute {
			t.Errorf("get %s: due is %s, want when it was settled", name, entry.Due)
		}
	}
}

func generatedIsForgotten(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	cancelled := park(t, store, message("", later()))[0].ID
	if _, err := store.Cancel(patient(t), ref(cancelled)); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	delivered := park(t, store, message(""))[0].ID
	o.finish(delivered, core.Outcome{State: core.Delivered})
	wantNotFound(t, store, cancelled)
	wantNotFound(t, store, delivered)
}

func windowOff(t *suite) {
	store := t.Open(t.T, Config{Buckets: 1, DedupeWindow: map[string]time.Duration{Sink: 0}})
	settleEach(t, store, own(t, store, Sink, 1))
	for _, name := range []string{"delivered", "cancelled", "discarded"} {
		wantNotFound(t, store, name)
		park(t, store, message(name, later()))
	}
}

func windowEnds(t *suite) {
	const window = 200 * time.Millisecond
	store := t.Open(t.T, Config{Buckets: 1, DedupeWindow: map[string]time.Duration{Sink: window}})
	o := own(t, store, Sink, 1)
	park(t, store, message("m"))
	wantIDs(t, o.await(1).Messages, "m")
	settled := time.Now()
	o.settle(delivered("m"))
	awaitForgotten(t, store)
	// A millisecond, as the store may count in whole ones.
	if since := time.Since(settled); since < window-time.Millisecond {
		t.Errorf("forgotten after %s, want %s or more", since, window)
	}
}

// awaitForgotten parks m again until it is accepted.
func awaitForgotten(t reporter, store core.Store) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(patience); ; {
		r := parkAgain(t, store, message("m", later()))
		if r.Err != nil {
			t.Fatalf("park again: %v", r.Err)
		}
		if !r.Duplicate {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("still remembered after %s", patience)
		}
	}
}
