package redisstore

import (
	"context"
	"slices"
	"time"
)

// parkBatch is what leaves for one server together: one call of park.lua for each
// bucket, in one pipeline.
type parkBatch struct {
	queue  *parkQueue
	groups map[bucketAddress]*parkGroup
	count  int
	size   int       // of the payloads
	memory int       // with overhead
	last   *parkCall // whose message was taken last
	full   bool
	split  bool // of last, only the first messages are here, and its order counts
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
	whole := p.call == b.last || !p.call.ordered || b.count+int(p.call.left.Load()) <= maxBatchMessages
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
	b.last = p.call
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
	if err := s.refusal(ctx); err != nil {
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
