package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

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

// Park implements core.Store. Messages of one key are stored in the order of the call
// and of successive calls. If ctx ends, messages not yet sent have core.ErrUnavailable;
// Park waits for the rest, for a bounded time. While Redis is unsafe, for example after
// a change of its eviction policy, all messages have core.ErrUnavailable.
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
		bucket := s.ids.Place(m, s.keys.buckets, anywhere)
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

// errQueueFull reports how many bytes wait for a server that does not keep up.
func errQueueFull(size int) error {
	return fmt.Errorf("park: %w: %d MiB of messages already wait for Redis", core.ErrUnavailable, size>>20)
}

// parkBatch is what leaves for one server together: one call of park.lua for each
// bucket, in one pipeline.
type parkBatch struct {
	queue  *parkQueue
	groups map[bucketAddress]*parkGroup
	count  int
	size   int      // of the payloads
	memory int      // with overhead
	last   *pending // what was taken last
	full   bool
	split  bool // of its call, only the first messages are here, and their order counts
	left   int  // groups without answers, once it has left; guarded by the parker
}

// parkGroup is the messages of one call of park.lua.
type parkGroup struct {
	sink   string
	bucket int
	load   []*pending
	size   int
	call   call
	waited error // what its waiting for durability came to
}

// take adds p unless the batch is full, or better ends before the call that p is of.
func (b *parkBatch) take(p *pending) bool {
	whole := b.last != nil && p.call == b.last.call || !p.call.ordered || b.count+int(p.call.left.Load()) <= maxBatchMessages
	if b.count > 0 && (!whole || b.count == maxBatchMessages || b.size+len(p.payload) > maxBatchBytes) {
		return false
	}
	at := bucketAddress{p.sink, p.bucket}
	g := b.groups[at]
	if g == nil {
		g = &parkGroup{sink: at.sink, bucket: at.bucket}
		b.groups[at] = g
	} else if len(g.load) == maxParkMessages || g.size+len(p.payload) > maxParkBytes {
		return false
	}
	g.load = append(g.load, p)
	g.size += len(p.payload)
	b.count++
	b.size += len(p.payload)
	b.memory += p.memory()
	b.last = p
	return true
}

// depart leaves out whose callers have given up; the parker is locked.
func (b *parkBatch) depart() {
	for at, g := range b.groups {
		g.load = slices.DeleteFunc(g.load, func(p *pending) bool { return p.place != placeQueue })
		for _, p := range g.load {
			p.place = placeBatch
		}
		if len(g.load) == 0 {
			delete(b.groups, at)
		}
	}
	b.left = len(b.groups)
}

// park parks a batch. It returns when it has left its place to others; an answer that
// is not known by then follows when it can't change any more.
func (s *Store) park(b *parkBatch) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout+s.durable.timeout)
	defer cancel()
	groups := make([]*parkGroup, 0, len(b.groups))
	for _, g := range b.groups {
		groups = append(groups, g)
	}
	if err := s.refusal(ctx, b); err != nil {
		for _, g := range groups {
			for _, p := range g.load {
				p.receipt.Durability, p.receipt.Err = "", err
			}
			b.answer(g)
		}
		return
	}
	s.commitGroups(ctx, groups)
	for _, g := range groups {
		s.readParked(g)
		if wait := g.call.outcome(); wait > 0 {
			time.AfterFunc(wait, func() { b.answer(g) })
			continue
		}
		b.answer(g)
	}
}

// answer lets the callers of a group have their receipts.
func (b *parkBatch) answer(g *parkGroup) {
	for _, p := range g.load {
		p.answered()
	}
	b.queue.landed(b)
}

// commitGroups runs the groups in one pipeline for each server that holds some.
func (s *Store) commitGroups(ctx context.Context, groups []*parkGroup) {
	calls := make([]call, len(groups))
	for n, g := range groups {
		s.writeFormat(g.load)
		g.call = newCall(ctx, s.scripts.park, s.keys.bucket(g.sink, g.bucket), s.parkArgs(g)...)
		calls[n] = g.call
	}
	byServer(ctx, s.client, calls, func(p *part) {
		if p.node == nil {
			return
		}
		err := s.commitOn(ctx, p.node, p.calls...)
		for _, n := range p.at {
			groups[n].waited = err
		}
	})
}
