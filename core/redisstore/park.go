package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/core"
)

// pending is one message on its way into the store. It is a copy: it points to
// nothing of the caller's.
type pending struct {
	id, sink string
	kind     parkKind
	bucket   int
	payload  []byte
	due      int64  // as park.lua wants it
	expires  int64  // likewise, with kindExpires
	member   string // in the due set, if the guess of its sequence number is right
	receipt  *core.Receipt
	call     *parkCall
	place    pendingPlace // guarded by the parker
}

// pendingPlace is where a pending message is.
type pendingPlace int

const (
	placeQueue pendingPlace = iota
	placeBatch
	placeNowhere // its caller gave up, or it has its answer
)

// pendingOverhead is the memory that a pending message takes besides its payload, about.
const pendingOverhead = 256

func (p *pending) memory() int { return len(p.payload) + pendingOverhead }

// answered ends p; its receipt is complete.
func (p *pending) answered() {
	if p.call.left.Add(-1) == 0 {
		close(p.call.done)
	}
}

// parkCall is one call of Park.
type parkCall struct {
	ordered bool         // it has messages with keys, which are stored in order
	left    atomic.Int64 // messages without an answer
	done    chan struct{}
}

// Park implements core.Store. The messages of one key that are given in one call, or
// in calls that follow each other, are stored in that order. If ctx ends, what was not
// sent yet has core.ErrUnavailable; Park waits for the rest, which takes a bounded time.
// While Redis is unsafe, as after a change of its eviction policy, all have
// core.ErrUnavailable.
func (s *Store) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if len(messages) == 0 {
		return nil
	}
	receipts := make([]core.Receipt, len(messages))
	if err := unlessDone(ctx, "park"); err != nil {
		for n, m := range messages {
			receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
		}
		return receipts
	}
	all := make([]pending, len(messages))
	c := &parkCall{done: make(chan struct{})}
	c.left.Store(int64(len(messages)))
	anywhere := s.parker.anywhere(messages)
	for n, m := range messages {
		bucket := s.place(m, anywhere) // which makes the id, too
		c.ordered = c.ordered || m.Key != nil
		all[n] = newPending(m, bucket, &receipts[n], c)
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Durability: s.durable.level}
	}
	s.parker.add(ctx, all)
	select {
	case <-c.done:
	case <-ctx.Done():
		s.parker.withdraw(all, unlessDone(ctx, "park"))
		<-c.done
	}
	return receipts
}

func newPending(m *core.Message, bucket int, receipt *core.Receipt, c *parkCall) pending {
	return pending{id: m.ID, sink: m.Sink, kind: kindOf(m), bucket: bucket,
		payload: appendPayload(make([]byte, 0, len(m.Body)+len(m.Topic)+len(m.Key)+16+maxTail), m),
		due:     whenMillis(core.When{At: m.DeliverAt, After: m.Delay}),
		expires: whenMillis(core.When{At: m.ExpiresAt, After: m.TTL}),
		receipt: receipt, call: c}
}

// refuse answers p with an error.
func (p *pending) refuse(err error) {
	p.place = placeNowhere
	p.receipt.Durability, p.receipt.Err = "", err
	p.answered()
}

// errQueueFull tells how many bytes wait for a server that does not keep up.
func errQueueFull(size int) error {
	return fmt.Errorf("park: %w: %d MiB of messages wait for Redis already", core.ErrUnavailable, size>>20)
}
