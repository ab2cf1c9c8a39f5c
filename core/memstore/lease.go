package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// lease is the core.Bucket of one run of a work. After the run it is useless.
type lease struct {
	store  *Store
	bucket *bucket
}

// acquire makes a new owner of b.
func (s *Store) acquire(b *bucket) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.cutOff()
	b.owner = &lease{store: s, bucket: b}
	return b.owner
}

// release ends the lease, if it has not passed on already. What is in flight
// stays there until the next owner comes.
func (o *lease) release() {
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	if o.bucket.owner == o {
		o.bucket.owner = nil
	}
}

// Take implements core.Bucket. Taking twice without Settle is an error.
func (o *lease) Take(_ context.Context, limit int) (core.Batch, error) {
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	b := o.bucket
	switch {
	case b.owner != o:
		return core.Batch{}, core.ErrLeaseLost
	case len(b.inFlight) > 0:
		return core.Batch{}, fmt.Errorf("take from %s: %d messages are in flight, settle first", o, len(b.inFlight))
	case limit < 1 || limit > core.MaxTake:
		return core.Batch{}, fmt.Errorf("take from %s: %d messages, must be 1 to %d", o, limit, core.MaxTake)
	}
	local := time.Now()
	now := down(local)
	messages := b.take(limit, now)
	return core.Batch{Messages: messages, Now: now, Local: local.Add(now.Sub(local)), Next: b.next()}, nil
}

// Settle implements core.Bucket. An outcome for what is not in flight is ignored.
func (o *lease) Settle(_ context.Context, outcomes ...core.Outcome) error {
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	b := o.bucket
	if b.owner != o {
		return core.ErrLeaseLost
	}
	for _, outcome := range outcomes {
		if !canSettleAs(outcome.State) {
			return fmt.Errorf("settle in %s: %q is not an outcome", o, outcome.State)
		}
	}
	now := time.Now()
	b.forget(now)
	for _, outcome := range outcomes {
		if r, ok := b.inFlight[outcome.ID]; ok {
			delete(b.inFlight, outcome.ID)
			b.settle(r, outcome, now)
		}
	}
	for _, r := range b.inFlight {
		b.putBack(r)
	}
	clear(b.inFlight)
	return nil
}

func canSettleAs(state core.State) bool {
	switch state {
	case core.Delivered, core.Retrying, core.Dead, core.Expired:
		return true
	}
	return false
}

func (b *bucket) settle(r *record, outcome core.Outcome, now time.Time) {
	if outcome.State == core.Delivered {
		b.remove(r, core.Delivered, now)
		return
	}
	r.failed(outcome.Attempts, outcome.Reason, outcome.Error)
	if outcome.State == core.Retrying {
		b.schedule(r, resolve(time.Time{}, outcome.After, now))
		return
	}
	b.bury(r, now)
}

// Wait implements core.Bucket. It does not look at the store, so that an owner
// that has lost the bucket learns it from the next Take.
func (o *lease) Wait(ctx context.Context, next time.Time) error {
	timeout := o.store.guard
	if !next.IsZero() {
		timeout = min(timeout, time.Until(next))
	}
	select {
	case <-time.After(timeout):
	case <-o.bucket.wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// String is the sink and the number of the bucket.
func (o *lease) String() string { return fmt.Sprintf("%s/%d", o.bucket.sink, o.bucket.number) }
