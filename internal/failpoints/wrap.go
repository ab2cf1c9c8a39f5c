//go:build failpoints && unix

// Package failpoints lets a test break the bridge at chosen points, which the environment
// names: see envFailpoint.
package failpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/delaybridge/delaybridge/core"
)

// Wrap returns store in a wrapper with places to fail in. From then on SIGUSR1 has the
// process count its goroutines.
func Wrap(store core.Store) core.Store {
	countGoroutines()
	return &failStore{store, readFailpoints()}
}

// WrapSink returns sink in such a wrapper.
func WrapSink(sink core.Sink) core.Sink { return &failSink{sink, readFailpoints()} }

// failStore is a store with places to fail in.
type failStore struct {
	core.Store
	points failpoints
}

// Unwrap leaves the abilities to the store; see core.Ability.
func (s *failStore) Unwrap() core.Store { return s.Store }

// Park implements core.Store.
func (s *failStore) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if err := s.points.reach("park.before"); err != nil {
		return refuseAll(messages, fmt.Errorf("%w: %w", core.ErrUnavailable, err))
	}
	receipts := s.Store.Park(ctx, messages...)
	if err := s.points.reach("park.after"); err != nil {
		return refuseAll(messages, fmt.Errorf("%w: %w", core.ErrUnknown, err))
	}
	return receipts
}

func refuseAll(messages []*core.Message, err error) []core.Receipt {
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
	}
	return receipts
}

// Cancel implements core.Store.
func (s *failStore) Cancel(ctx context.Context, ref core.Ref) (core.Receipt, error) {
	if err := s.points.reach("cancel.before"); err != nil {
		return core.Receipt{}, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	receipt, err := s.Store.Cancel(ctx, ref)
	if failed := s.points.reach("cancel.after"); failed != nil {
		return core.Receipt{}, fmt.Errorf("%w: %w", core.ErrUnknown, failed)
	}
	return receipt, err
}

// Serve implements core.Store.
func (s *failStore) Serve(ctx context.Context, sink string, work func(context.Context, core.Bucket) error) error {
	return s.Store.Serve(ctx, sink, func(ctx context.Context, b core.Bucket) error {
		if err := s.points.reach("own.before"); err != nil {
			return err
		}
		err := work(ctx, &failBucket{b, s.points})
		if failed := s.points.reach("own.after"); failed != nil {
			return failed
		}
		return err
	})
}

type failBucket struct {
	core.Bucket
	points failpoints
}

// Take implements core.Bucket. Hits count takes that found something.
func (b *failBucket) Take(ctx context.Context, max int) (core.Batch, error) {
	if err := b.points.reach("take.before"); err != nil {
		return core.Batch{}, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	batch, err := b.Bucket.Take(ctx, max)
	if err == nil && len(batch.Messages) > 0 {
		if failed := b.points.reach("take.after"); failed != nil {
			return core.Batch{}, fmt.Errorf("%w: %w", core.ErrUnknown, failed)
		}
	}
	return batch, err
}

// Settle implements core.Bucket.
func (b *failBucket) Settle(ctx context.Context, outcomes ...core.Outcome) error {
	if err := b.points.reach("settle.before"); err != nil {
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	err := b.Bucket.Settle(ctx, outcomes...)
	if failed := b.points.reach("settle.after"); failed != nil {
		return fmt.Errorf("%w: %w", core.ErrUnknown, failed)
	}
	return err
}

// failSink is a sink with places to fail in.
type failSink struct {
	core.Sink
	points failpoints
}

// Unwrap leaves the abilities to the sink.
func (s *failSink) Unwrap() core.Sink { return s.Sink }

// Deliver implements core.Sink.
func (s *failSink) Deliver(ctx context.Context, batch []*core.Message) error {
	if err := s.points.reach("deliver.before"); err != nil {
		class := core.Retry
		if errors.Is(err, errFailpointUnknown) {
			class = core.Unknown
		}
		return core.Classify(class, err)
	}
	if slices.ContainsFunc(batch, func(m *core.Message) bool { return m.Topic == "poison" }) {
		if err := s.points.reach("deliver.poison"); err != nil {
			return err // of no class: a sink that does not know better
		}
	}
	err := s.Sink.Deliver(ctx, batch)
	if failed := s.points.reach("deliver.after"); failed != nil {
		return core.Classify(core.Unknown, failed)
	}
	return err
}
