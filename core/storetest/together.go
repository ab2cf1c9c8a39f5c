package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func togetherRules() []rule {
	return []rule{
		{"each accepted message is delivered once or cancelled", deliveredOrCancelled},
		{"of many who park one id, one is accepted", oneAccepted},
		{"of many who cancel one message, one succeeds", oneCancels},
	}
}

const (
	producers   = 8
	perProducer = 60
)

// outcomes is what several producers have learnt of their messages.
type outcomes struct {
	mu        sync.Mutex
	accepted  map[string]bool
	cancelled map[string]bool
}

func deliveredOrCancelled(t *suite) {
	store := t.open(3)
	batches := drain(t, store)
	f := &outcomes{accepted: make(map[string]bool), cancelled: make(map[string]bool)}
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() { f.produce(t, store, p) })
	}
	group.Wait()
	if len(f.accepted) != producers*perProducer {
		t.Fatalf("%d messages were accepted, want %d", len(f.accepted), producers*perProducer)
	}
	seen := make(map[string]bool)
	for _, m := range collect(t, batches, len(f.accepted)-len(f.cancelled)) {
		if seen[m.ID] || f.cancelled[m.ID] || !f.accepted[m.ID] {
			t.Errorf("%s was delivered: before %t, cancelled %t, accepted %t", m.ID, seen[m.ID], f.cancelled[m.ID], f.accepted[m.ID])
		}
		seen[m.ID] = true
	}
	if rest := walk(t, store, core.Query{}); len(rest) > 0 {
		t.Errorf("%v are left", entryIDs(rest))
	}
}

// produce parks messages, some with keys, some with generated IDs, and cancels
// every other one while it falls due.
func (f *outcomes) produce(t *suite, store core.Store, producer int) {
	for n := range perProducer {
		m := message(fmt.Sprintf("p%d-%d", producer, n), after(time.Duration(n%5)*time.Millisecond), priority(n%3))
		if n%4 == 1 {
			m.Key = fmt.Append(nil, n%7)
		}
		if m.Generated = n%3 == 2; m.Generated {
			m.ID = ""
		}
		r := store.Park(context.Background(), m)[0]
		if r.Err != nil || r.Duplicate {
			t.Errorf("park: %+v", r)
			continue
		}
		cancelled := n%2 == 0 && cancel(t, store, core.Ref{ID: r.ID, Sink: Sink, Key: m.Key})
		f.note(r.ID, cancelled)
	}
}

func (f *outcomes) note(id string, cancelled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted[id] = true
	if cancelled {
		f.cancelled[id] = true
	}
}

// cancel reports whether it was in time.
func cancel(t *suite, store core.Store, ref core.Ref) bool {
	receipt, err := store.Cancel(context.Background(), ref)
	switch {
	case err == nil && receipt.Attempt == 0:
		return true
	case err == nil:
		t.Errorf("cancel %s: attempt %d, though all succeed at the first", ref.ID, receipt.Attempt)
	case !errors.Is(err, core.ErrTooLate) && !errors.Is(err, core.ErrNotFound):
		t.Errorf("cancel %s: %v", ref.ID, err)
	}
	return false
}

func oneAccepted(t *suite) {
	store := t.open(3)
	receipts := make([]core.Receipt, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() {
			receipts[p] = store.Park(context.Background(), message("m", later(), topic(fmt.Sprint(p/2))))[0]
		})
	}
	group.Wait()
	accepted, duplicates, conflicts := 0, 0, 0
	for _, r := range receipts {
		switch {
		case errors.Is(r.Err, core.ErrConflict):
			conflicts++
		case r.Err != nil:
			t.Errorf("park: %v", r.Err)
		case r.Duplicate:
			duplicates++
		default:
			accepted++
		}
	}
	if accepted != 1 || duplicates != 1 || conflicts != producers-2 {
		t.Errorf("%d accepted, %d duplicates, %d conflicts of %d", accepted, duplicates, conflicts, producers)
	}
}

func oneCancels(t *suite) {
	store := t.open(1)
	park(t, store, message("m", later()))
	errs := make([]error, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() { _, errs[p] = store.Cancel(context.Background(), ref("m")) })
	}
	group.Wait()
	succeeded := 0
	for _, err := range errs {
		switch {
		case err == nil:
			succeeded++
		case !errors.Is(err, core.ErrTooLate):
			t.Errorf("cancel: %v, want %v", err, core.ErrTooLate)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d of %d cancelled the one message", succeeded, producers)
	}
}
