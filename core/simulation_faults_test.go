package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// faults decides, by a seed, what goes wrong, until heal. How goroutines take
// turns is not its to decide: the same seed meets the same odds, not the same
// run.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
	rate   float64 // of calls that go wrong in some way
	healed bool
}

func newFaults(seed uint64, rate float64) *faults {
	return &faults{random: rand.New(rand.NewPCG(seed, 0)), rate: rate}
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
}

// strikes tells whether a call is to go wrong, once in so many faults.
func (f *faults) strikes(oneIn int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.healed && f.random.Float64() < f.rate && f.random.IntN(oneIn) == 0
}

func (f *faults) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// dawdle lets up to most pass, sometimes.
func (f *faults) dawdle(most time.Duration) {
	if f.strikes(2) {
		time.Sleep(time.Duration(f.below(int(most))))
	}
}

// rare counts the states that the simulation exists for. A simulation that did
// not reach them all has shown nothing.
type rare struct {
	cutOff, fenced, zombies, storeUnknown, sinkUnknown, repeats, tooLate, attemptsSpent, cancelled, duplicates atomic.Int64
}

// shakyStore is a store whose calls fail, before or after they did their work.
type shakyStore struct {
	core.Store
	*faults
	seen    *rare
	zombies sync.WaitGroup
}

func (s *shakyStore) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.dawdle(100 * time.Millisecond)
	if s.strikes(3) {
		return failedReceipts(messages, core.ErrUnavailable)
	}
	receipts := s.Store.Park(ctx, messages...)
	for _, r := range receipts {
		if r.Duplicate {
			s.seen.duplicates.Add(1)
		}
	}
	if s.strikes(3) {
		s.seen.storeUnknown.Add(1)
		return failedReceipts(messages, core.ErrUnknown)
	}
	return receipts
}

func failedReceipts(messages []*core.Message, err error) []core.Receipt {
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
	}
	return receipts
}

func (s *shakyStore) Cancel(ctx context.Context, ref core.Ref) (core.Receipt, error) {
	return s.shake(func() (core.Receipt, error) { return s.Store.Cancel(ctx, ref) })
}

func (s *shakyStore) Reschedule(ctx context.Context, ref core.Ref, when core.When) (core.Receipt, error) {
	return s.shake(func() (core.Receipt, error) { return s.Store.Reschedule(ctx, ref, when) })
}

func (s *shakyStore) shake(call func() (core.Receipt, error)) (core.Receipt, error) {
	if s.strikes(3) {
		return core.Receipt{}, core.ErrUnavailable
	}
	receipt, err := call()
	if s.strikes(3) {
		return core.Receipt{}, core.ErrUnknown
	}
	return receipt, err
}

var errLeft = errors.New("the instance is gone, as far as the store knows")

// Serve now and then takes the bucket away from a work that goes on, as from an
// instance that was paused: what that does from then on must not count.
func (s *shakyStore) Serve(ctx context.Context, sink string, work func(context.Context, core.Bucket) error) error {
	return s.Store.Serve(ctx, sink, func(ctx context.Context, b core.Bucket) error {
		ctx, lose := context.WithCancelCause(ctx)
		defer lose(nil)
		bucket := &shakyBucket{Bucket: b, shakyStore: s, left: make(chan struct{})}
		ended := make(chan error, 1)
		s.zombies.Go(func() { ended <- work(ctx, bucket) })
		select {
		case err := <-ended:
			return err
		case <-bucket.left:
		}
		if s.below(2) == 0 {
			lose(core.ErrLeaseLost) // it notices; else it learns it from the store
		}
		s.seen.zombies.Add(1)
		return errLeft
	})
}

// shakyBucket fails as shakyStore does.
type shakyBucket struct {
	core.Bucket
	*shakyStore
	left chan struct{} // closed when the lease passes on behind the owner's back
	gone bool
}

func (b *shakyBucket) Take(ctx context.Context, most int) (core.Batch, error) {
	if b.strikes(4) {
		return core.Batch{}, core.ErrUnavailable
	}
	batch, err := b.Bucket.Take(ctx, most)
	for _, m := range batch.Messages {
		if m.CutOff {
			b.seen.cutOff.Add(1)
		}
	}
	if b.strikes(4) {
		return core.Batch{}, core.ErrUnknown
	}
	if len(batch.Messages) > 0 && b.strikes(3) && !b.gone {
		b.gone = true
		close(b.left)
	}
	return batch, err
}

func (b *shakyBucket) Settle(ctx context.Context, outcomes ...core.Outcome) error {
	b.dawdle(2 * time.Second)
	if b.strikes(3) {
		return core.ErrUnavailable
	}
	err := b.Bucket.Settle(ctx, outcomes...)
	if errors.Is(err, core.ErrLeaseLost) {
		b.seen.fenced.Add(1)
	}
	if err == nil && b.strikes(3) {
		b.seen.storeUnknown.Add(1)
		return core.ErrUnknown
	}
	return err
}

func (b *shakyBucket) String() string { return b.Bucket.String() }

// shakySink is a broker that keeps what it gets and answers as it likes, but
// never says that something was not sent when it was, nor the reverse.
type shakySink struct {
	*faults
	seen *rare

	mu       sync.Mutex
	arrived  map[string][]arrival
	panicked map[string]bool // after it was sent
	began    time.Time
}

const poison = "poison"

func (s *shakySink) Deliver(ctx context.Context, batch []*core.Message) error {
	if s.strikes(12) {
		time.Sleep(time.Duration(s.below(int(3 * simTimeout)))) // also past its deadline
	} else {
		s.dawdle(50 * time.Millisecond)
	}
	if err := s.refuse(); err != nil {
		return err
	}
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		results[n] = s.one(m)
	}
	switch {
	case s.strikes(6):
		s.seen.sinkUnknown.Add(1)
		return core.Classify(core.Unknown, errors.New("connection lost behind the last byte"))
	case s.strikes(20):
		s.panicAfter(batch)
	}
	return results
}

// refuse fails a batch before anything of it is sent, sometimes.
func (s *shakySink) refuse() error {
	if s.strikes(8) {
		return core.Classify(core.Retry, errors.New("broker is unreachable"))
	}
	if s.strikes(8) {
		return core.Classify(core.Blocked, errors.New("broker wants another login"))
	}
	if s.strikes(20) {
		panic("a message that the encoder can't bear")
	}
	return nil
}

// one is the result on one message.
func (s *shakySink) one(m *core.Message) error {
	if string(m.Body) == poison {
		return core.Classify(core.Permanent, errors.New("poison"))
	}
	if s.strikes(5) {
		return core.Classify(core.Retry, errors.New("not now"))
	}
	if s.strikes(5) {
		return core.Classify(core.TopicBlocked, errors.New("topic is missing"))
	}
	if s.strikes(5) {
		if s.below(2) == 0 {
			s.keep(m)
		}
		return core.Classify(core.Unknown, errors.New("perhaps"))
	}
	s.keep(m)
	return nil
}

func (s *shakySink) panicAfter(batch []*core.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range batch {
		s.panicked[m.ID] = true
	}
	panic("after all was sent")
}

func (s *shakySink) keep(m *core.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.arrived[m.ID]) > 0 {
		s.seen.repeats.Add(1)
	}
	s.arrived[m.ID] = append(s.arrived[m.ID], arrival{m.ID, m.Attempt, time.Since(s.began)})
}

func (s *shakySink) Close() error { return nil }

func (s *shakySink) arrivals(id string) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived[id]
}

func (r *rare) unreached() error {
	for name, n := range map[string]*atomic.Int64{
		"an attempt cut off by a crash": &r.cutOff, "an owner fenced when it settles": &r.fenced,
		"a bucket that passes on behind its owner's back": &r.zombies, "a store call of unknown outcome": &r.storeUnknown,
		"a delivery of unknown outcome": &r.sinkUnknown, "a repeat at the consumer": &r.repeats, "a change that came too late": &r.tooLate,
		"a message with all attempts spent": &r.attemptsSpent, "a message cancelled for sure": &r.cancelled, "a duplicate accept": &r.duplicates,
	} {
		if n.Load() == 0 {
			return fmt.Errorf("no run had %s: the simulation is void", name)
		}
	}
	return nil
}
