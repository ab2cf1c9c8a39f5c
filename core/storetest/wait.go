package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// wakeWithin is less than the guard period, so that a wake-up that was lost
// shows.
const wakeWithin = Guard * 2 / 3

func waitRules() []rule {
	return []rule{
		{"ends when the next is due", waitEndsWhenDue},
		{"ends when an earlier message is parked", parkedWakes},
		{"ends when a message is rescheduled before the next", rescheduledWakes},
		{"ends when a dead letter is redriven", redrivenWakes},
		{"a wake-up before it began is not lost", earlyWake},
		{"ends with its context", waitEndsWithContext},
	}
}

// wakes reports whether Wait for next, begun before or while act runs, returns
// in time.
func wakes(t reporter, b core.Bucket, next time.Time, act func()) {
	t.Helper()
	returned, began := make(chan error, 1), time.Now()
	go func() { returned <- b.Wait(patient(t), next) }()
	act()
	if err := <-returned; err != nil {
		t.Fatalf("wait: %v", err)
	}
	if since := time.Since(began); since > wakeWithin {
		t.Errorf("woken after %s, which the guard period would have done", since)
	}
}

// watched returns an owner that has seen next as what its bucket waits for.
func watched(t *suite, store core.Store) (o *owner, next time.Time) {
	park(t, store, message("later", later()))
	o = own(t, store, Sink, 1)
	batch := o.take(1)
	if len(batch.Messages) > 0 || batch.Next.IsZero() {
		t.Fatalf("took %v, next %s", ids(batch.Messages), batch.Next)
	}
	return o, batch.Next
}

func waitEndsWhenDue(t *suite) {
	store := t.open(1)
	park(t, store, message("soon", after(300*time.Millisecond)))
	o := own(t, store, Sink, 1)
	wakes(t, o.buckets[0], o.take(1).Next, func() {})
	wantIDs(t, o.await(1).Messages, "soon")
}

func parkedWakes(t *suite) {
	store := t.open(1)
	o, next := watched(t, store)
	wakes(t, o.buckets[0], next, func() { park(t, store, message("now")) })
	wantIDs(t, o.await(1).Messages, "now")
	o.settle(delivered("now"))
	wakes(t, o.buckets[0], next, func() { park(t, store, message("sooner", after(30*time.Minute))) })
	if batch := o.take(1); !batch.Next.Before(next) {
		t.Errorf("next is %s, want before %s", batch.Next, next)
	}
}

func rescheduledWakes(t *suite) {
	store := t.open(1)
	o, next := watched(t, store)
	wakes(t, o.buckets[0], next, func() {
		if _, err := store.Reschedule(patient(t), ref("later"), core.When{}); err != nil {
			t.Errorf("reschedule: %v", err)
		}
	})
	wantIDs(t, o.await(1).Messages, "later")
}

func redrivenWakes(t *suite) {
	store := t.open(1)
	o, next := watched(t, store)
	park(t, store, message("m"))
	o.finish("m", deadLetter("", 1))
	wakes(t, o.buckets[0], next, func() {
		if _, err := store.Redrive(patient(t), ref("m")); err != nil {
			t.Errorf("redrive: %v", err)
		}
	})
	wantIDs(t, o.await(1).Messages, "m")
}

func earlyWake(t *suite) {
	store := t.open(1)
	o, next := watched(t, store)
	park(t, store, message("now"))
	wakes(t, o.buckets[0], next, func() {})
	wantIDs(t, o.await(1).Messages, "now")
}

func waitEndsWithContext(t *suite) {
	store := t.open(1)
	o, next := watched(t, store)
	ctx, cancel := context.WithCancel(context.Background())
	returned := make(chan error, 1)
	go func() { returned <- o.buckets[0].Wait(ctx, next) }()
	cancel()
	select {
	case err := <-returned:
		// A wake-up that was pending may have ended it first.
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
	case <-time.After(wakeWithin):
		t.Errorf("wait has not ended %s after its context", wakeWithin)
	}
}
