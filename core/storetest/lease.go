package storetest

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// owner holds buckets for a test, which takes from them and settles at its own
// pace.
type owner struct {
	t       reporter
	buckets []core.Bucket
	stop    func() // ends Serve and waits for it; may be called twice
}

// own serves sink and waits until it owns all n buckets.
func own(t reporter, store core.Store, sink string, n int) *owner {
	t.Helper()
	owned := make(chan core.Bucket)
	o := &owner{t: t, stop: serve(t, store, sink, func(ctx context.Context, b core.Bucket) error {
		select {
		case owned <- b:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	})}
	timeout := time.After(patience)
	for len(o.buckets) < n {
		select {
		case b := <-owned:
			o.buckets = append(o.buckets, b)
		case <-timeout:
			o.stop()
			t.Fatalf("owns %d of %d buckets of %s after %s", len(o.buckets), n, sink, patience)
		}
	}
	return o
}

// serve runs Serve until the returned function is called or the test ends.
func serve(t reporter, store core.Store, sink string, work func(context.Context, core.Bucket) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- store.Serve(ctx, sink, work)
		close(ended)
	}()
	stop = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				t.Errorf("serve %s: %v", sink, err)
			}
		case <-time.After(patience):
			t.Errorf("serve %s has not returned %s after its context ended", sink, patience)
		}
	}
	t.Cleanup(stop)
	return stop
}

// take is Take from the only bucket.
func (o *owner) take(limit int) core.Batch {
	o.t.Helper()
	batch, err := o.buckets[0].Take(patient(o.t), limit)
	if err != nil {
		o.t.Fatalf("take: %v", err)
	}
	o.check(batch, limit)
	return batch
}

// check holds what is true of every batch.
func (o *owner) check(batch core.Batch, limit int) {
	o.t.Helper()
	if len(batch.Messages) > limit {
		o.t.Fatalf("take %d messages: got %d", limit, len(batch.Messages))
	}
	for _, m := range batch.Messages {
		if m.DeliverAt.After(batch.Now) {
			o.t.Errorf("%q was taken at %s, due at %s: early", m.ID, batch.Now, m.DeliverAt)
		}
	}
}

// await takes one to limit messages, as soon as any is due.
func (o *owner) await(limit int) core.Batch {
	o.t.Helper()
	return o.awaitSome(1, limit)
}

// awaitAll takes n messages, as soon as so many are due.
func (o *owner) awaitAll(n int) core.Batch {
	o.t.Helper()
	return o.awaitSome(n, n)
}

func (o *owner) awaitSome(least, most int) core.Batch {
	o.t.Helper()
	ctx := patient(o.t)
	for {
		batch := o.take(most)
		if len(batch.Messages) >= least {
			return batch
		}
		o.settle() // what is too little goes back
		if err := o.buckets[0].Wait(ctx, batch.Next); err != nil {
			o.t.Fatalf("%d messages are due after %s, want %d: %v", len(batch.Messages), patience, least, err)
		}
	}
}

// settle is Settle in the only bucket.
func (o *owner) settle(outcomes ...core.Outcome) {
	o.t.Helper()
	if err := o.buckets[0].Settle(patient(o.t), outcomes...); err != nil {
		o.t.Fatalf("settle: %v", err)
	}
}

// finish awaits the message that is due next, which must be id, and settles it
// as the outcome says.
func (o *owner) finish(id string, outcome core.Outcome) {
	o.t.Helper()
	wantIDs(o.t, o.await(1).Messages, id)
	outcome.ID = id
	o.settle(outcome)
}

func delivered(id string) core.Outcome { return core.Outcome{ID: id, State: core.Delivered} }

func retrying(id string, after time.Duration, attempts int) core.Outcome {
	return core.Outcome{ID: id, State: core.Retrying, After: after, Attempts: attempts, Reason: "retry", Error: "try later"}
}

func deadLetter(id string, attempts int) core.Outcome {
	return core.Outcome{ID: id, State: core.Dead, Attempts: attempts, Reason: "permanent", Error: "no such place"}
}

func expired(id string, attempts int) core.Outcome {
	return core.Outcome{ID: id, State: core.Expired, Attempts: attempts, Reason: "expired", Error: "expired long ago"}
}
