package memstore

import (
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// bucket is one shard of one sink's timer. The store's mutex guards it.
type bucket struct {
	sink   string
	number int
	window time.Duration // how long what was settled is remembered

	records    map[string]*record          // all, by ID
	waiting    [core.MaxPriority + 1]queue // by priority
	inFlight   map[string]*record          // what the owner has taken and not settled
	seq        uint64                      // the last that was given out
	owner      *lease                      // nil: nobody
	wake       chan struct{}               // has a token if an earlier message came
	memories   map[string]memory           // of settled messages, by ID
	forgetting []string                    // their IDs in the order in which they end
}

// memory is what is left of a settled message.
type memory struct {
	state core.State
	at    time.Time
}

func newBucket(sink string, number int, window time.Duration) *bucket {
	return &bucket{
		sink: sink, number: number, window: window,
		records:  make(map[string]*record),
		inFlight: make(map[string]*record),
		memories: make(map[string]memory),
		wake:     make(chan struct{}, 1),
	}
}

// schedule makes r wait until due, behind all others that are due then, and
// wakes the owner if nothing waits that is due earlier.
func (b *bucket) schedule(r *record, due time.Time) {
	head := b.next()
	b.seq++
	r.place, r.due, r.seq = waiting, due, b.seq
	b.queue(r).push(r)
	if !head.IsZero() && !due.Before(head) {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default: // the owner has been woken, but did not look yet
	}
}

// putBack makes r wait as it did before it was taken.
func (b *bucket) putBack(r *record) {
	r.place = waiting
	b.queue(r).push(r)
}

// withdraw takes r out of what waits.
func (b *bucket) withdraw(r *record) { b.queue(r).remove(r) }

func (b *bucket) queue(r *record) *queue { return &b.waiting[r.message.Priority] }

// next returns when the first of what waits is due, or zero.
func (b *bucket) next() time.Time {
	var first time.Time
	for _, q := range b.waiting {
		if len(q) > 0 && (first.IsZero() || q[0].due.Before(first)) {
			first = q[0].due
		}
	}
	return first
}

// take puts up to limit due records in flight and returns them in the order in which
// they leave: by priority, due time and acceptance.
func (b *bucket) take(limit int, now time.Time) []*core.Message {
	var messages []*core.Message
	for priority := core.MaxPriority; priority >= 0; priority-- {
		q := &b.waiting[priority]
		for len(messages) < limit && len(*q) > 0 && !(*q)[0].due.After(now) {
			r := q.pop()
			r.place = inFlight
			b.inFlight[r.message.ID] = r
			messages = append(messages, r.taken())
		}
	}
	return messages
}

// cutOff ends the attempts that an owner who is gone had in flight. They count,
// so that a message that brings its owner down is not tried for ever.
func (b *bucket) cutOff() {
	for _, r := range b.inFlight {
		r.failed(r.attempts+1, reasonCrashed, errorCrashed)
		b.putBack(r)
	}
	clear(b.inFlight)
}

// bury makes r a dead letter.
func (b *bucket) bury(r *record, now time.Time) { r.place, r.due = dead, down(now) }

// remove drops r, which is in no queue and in no hand any more, and remembers
// its end. IDs that the store made are not remembered: nobody will send them
// again.
func (b *bucket) remove(r *record, state core.State, now time.Time) {
	delete(b.records, r.message.ID)
	if r.message.Generated || b.window <= 0 {
		return
	}
	b.memories[r.message.ID] = memory{state, down(now)}
	b.forgetting = append(b.forgetting, r.message.ID)
}

// forget drops the memories that are over. An ID is in forgetting once, as it
// is not accepted again before it is forgotten.
func (b *bucket) forget(now time.Time) {
	for len(b.forgetting) > 0 {
		id := b.forgetting[0]
		if b.memories[id].at.Add(b.window).After(now) {
			return
		}
		delete(b.memories, id)
		b.forgetting = b.forgetting[1:]
	}
}
