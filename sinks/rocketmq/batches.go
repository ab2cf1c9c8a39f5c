package rocketmq

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/core"
)

// batch is what one Deliver has for one request.
type batch struct {
	wire   []byte        // its messages; a request may outlive their Deliver
	left   bool          // it is on its way, or nobody waits for it any more
	along  chan struct{} // closed when another takes it along
	landed chan struct{} // closed when that request is over
	// failure is of that request, and to be read when landed is closed.
	failure *failure
}

func newBatch(messages []*outgoing) *batch {
	return &batch{wire: onWire(messages), along: make(chan struct{}), landed: make(chan struct{})}
}

// sociable reports whether messages may share a request with those of other
// Delivers. What has failed before may not: it may be what the request failed for.
func sociable(messages []*outgoing) bool {
	for _, o := range messages {
		if o.source.Attempt > 1 {
			return false
		}
	}
	return true
}

// batches are those of all Delivers that wait for a worker, by queue. Who gets
// a worker takes along what waits for the same queue: a request costs the broker
// as much as many messages in it do. Safe for concurrent use.
type batches struct {
	mu      sync.Mutex
	waiting map[address][]*batch
}

// address is what tells queues apart.
type address struct {
	topic, broker string
	number        int
}

func addressOf(q *primitive.MessageQueue) address { return address{q.Topic, q.BrokerName, q.QueueId} }

func newBatches() *batches { return &batches{waiting: map[address][]*batch{}} }

// add has p wait until take or remove.
func (s *batches) add(to address, p *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[to] = append(s.waiting[to], p)
}

// take returns p and, up to maxBytes, those that have waited longest beside it.
// It returns nil if p has left.
func (s *batches) take(to address, p *batch, maxBytes int) []*batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.left {
		return nil
	}
	p.left = true
	taken, total := []*batch{p}, len(p.wire)
	for _, other := range s.waiting[to] {
		if other.left {
			continue
		}
		if total += len(other.wire); total > maxBytes {
			break
		}
		other.left = true
		close(other.along)
		taken = append(taken, other)
	}
	s.sweep(to)
	return taken
}

// remove takes p back. It returns false if p has left.
func (s *batches) remove(to address, p *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.left {
		return false
	}
	p.left = true
	s.sweep(to)
	return true
}

// sweep forgets what has left; s.mu is held.
func (s *batches) sweep(to address) {
	stay := slices.DeleteFunc(s.waiting[to], func(p *batch) bool { return p.left })
	if len(stay) == 0 {
		delete(s.waiting, to)
		return
	}
	s.waiting[to] = stay
}

// together sends p in one request with what waits for the same queue; shared
// reports whether there was any. A shared request continues when the ctx of one
// of its Delivers ends; the outcome is then unknown to that one.
func (s *Sink) together(ctx context.Context, t *target, p *batch) (f *failure, shared bool) {
	to := addressOf(t.queue)
	s.batches.add(to, p)
	leave, err := s.enter(ctx, to.broker, p.along)
	if err != nil && s.batches.remove(to, p) {
		return fail(core.Retry, ofSink, err), false
	}
	if leave == nil {
		return p.outcome(ctx), true
	}
	taken := s.batches.take(to, p, s.settings.maxBatchBytes)
	if len(taken) == 1 {
		defer leave()
		return s.send(ctx, t, p.wire), false
	}
	go func() {
		defer leave()
		s.sendShared(t, taken)
	}()
	return p.outcome(ctx), true
}

// sendShared makes one request of the batches, if any, and tells each how it
// went.
func (s *Sink) sendShared(t *target, taken []*batch) {
	if len(taken) == 0 { // another took p along while it got a worker
		return
	}
	wires := make([][]byte, len(taken))
	for i, p := range taken {
		wires[i] = p.wire
	}
	f := s.send(s.ctx, t, bytes.Join(wires, nil))
	for _, p := range taken {
		p.failure = f
		close(p.landed)
	}
}

// outcome waits until p has landed or ctx ends.
func (p *batch) outcome(ctx context.Context) *failure {
	select {
	case <-p.landed:
		return p.failure
	case <-ctx.Done():
		return fail(core.Unknown, ofBroker, errTimeout)
	}
}

// alone sends a batch in a request of its own, when a worker is free.
func (s *Sink) alone(ctx context.Context, t *target, p *batch) *failure {
	leave, err := s.enter(ctx, t.queue.BrokerName, nil)
	if err != nil {
		return fail(core.Retry, ofSink, err)
	}
	defer leave()
	return s.send(ctx, t, p.wire)
}

// enter waits for a worker of broker, whom leave lets go. Both results are nil
// when unless is closed before.
func (s *Sink) enter(ctx context.Context, broker string, unless <-chan struct{}) (leave func(), err error) {
	workers := s.brokers.workersOf(broker)
	select {
	case workers <- struct{}{}:
		if ctx.Err() == nil {
			return func() { <-workers }, nil
		}
		<-workers
	case <-unless:
		return nil, nil
	case <-s.ctx.Done():
		return nil, errClosed
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("%w: %w", errNotStarted, context.Cause(ctx))
}
