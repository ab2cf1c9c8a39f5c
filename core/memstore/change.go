package memstore

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// change does act with the record that ref leads to, if it is at the place from
// which the act starts. Otherwise it is too late, and the receipt's state says
// why.
func (s *Store) change(ref core.Ref, from place, act func(*bucket, *record, time.Time) (core.Receipt, error)) (core.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	f, err := s.find(ref, now)
	switch {
	case err != nil:
		return core.Receipt{}, err
	case f.record == nil:
		return core.Receipt{ID: ref.ID, Sink: ref.Sink, State: f.memory.state}, core.ErrTooLate
	case f.record.place != from:
		return f.record.receipt(f.record.state()), core.ErrTooLate
	}
	return act(f.bucket, f.record, now)
}

// Cancel implements core.Store.
func (s *Store) Cancel(_ context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ref, waiting, func(b *bucket, r *record, now time.Time) (core.Receipt, error) {
		b.withdraw(r)
		b.remove(r, core.Cancelled, now)
		return r.receipt(core.Cancelled), nil
	})
}

// Reschedule implements core.Store. A time that is not before the message's
// expiry is refused with a *core.InvalidError.
func (s *Store) Reschedule(_ context.Context, ref core.Ref, when core.When) (core.Receipt, error) {
	return s.change(ref, waiting, func(b *bucket, r *record, now time.Time) (core.Receipt, error) {
		due, expires := resolve(when.At, when.After, now), r.message.ExpiresAt
		if !expires.IsZero() && !due.Before(expires) {
			return core.Receipt{}, core.Invalidf("deliver_at", "is not before the time when the message expires")
		}
		b.withdraw(r)
		r.message.DeliverAt = due
		b.schedule(r, due)
		return r.receipt(r.state()), nil
	})
}

// Redrive implements core.Store.
func (s *Store) Redrive(_ context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ref, dead, func(b *bucket, r *record, now time.Time) (core.Receipt, error) {
		r.message.DeliverAt, r.message.ExpiresAt = down(now), time.Time{}
		r.failed(0, "", "")
		b.schedule(r, r.message.DeliverAt)
		return r.receipt(core.Scheduled), nil
	})
}

// Discard implements core.Store.
func (s *Store) Discard(_ context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ref, dead, func(b *bucket, r *record, now time.Time) (core.Receipt, error) {
		b.remove(r, core.Discarded, now)
		return r.receipt(core.Discarded), nil
	})
}
