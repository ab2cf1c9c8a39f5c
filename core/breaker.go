package core

import (
	"context"
	"sync"
	"time"
)

// While the breaker is open, one bucket at a time may probe with one message: first
// soon, as most trouble is short, then once a second.
const (
	firstProbe = 100 * time.Millisecond
	probeEvery = time.Second
	// othersFirst is for how long a bucket whose call failed lets others probe.
	othersFirst = 5 * time.Millisecond
)

// breaker is the circuit breaker of a sink: it is open while the sink is in trouble, and
// holds the sink's buckets back. The zero value is closed.
type breaker struct {
	mu      sync.Mutex
	reason  string // why it is open; empty: closed
	class   Class  // of the error
	since   time.Time
	probeAt time.Time
	probing bool
	// failed is whose call failed last: others are to probe before it, as it may be one of
	// its messages that can't be sent.
	failed  *bucketLoop
	changed chan struct{} // closed at the next change, if anyone waits
}

// permit allows one take and its delivery. Each permit ends with exactly one of
// release (the call told nothing), succeeded and failed.
type permit struct {
	breaker *breaker
	probe   bool
	// cut: the delivery ended with its bucket, so that its failure says nothing about
	// the sink.
	cut bool
}

// acquire blocks while the breaker is open, unless it is this caller's turn to probe.
// It returns false when ctx has ended.
func (b *breaker) acquire(ctx context.Context, l *bucketLoop) (permit, bool) {
	for ctx.Err() == nil {
		p, changed, wait := b.try(l)
		if wait < 0 {
			return p, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return permit{}, false
}

// try returns a permit, or how long to wait (and for what) before trying again.
func (b *breaker) try(l *bucketLoop) (p permit, changed <-chan struct{}, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == "" {
		return permit{breaker: b}, nil, -1
	}
	wait = time.Until(b.probeAt)
	if l == b.failed {
		wait += othersFirst
	}
	if !b.probing && wait <= 0 {
		b.probing = true
		return permit{breaker: b, probe: true}, nil, -1
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	if wait <= 0 { // another probes
		wait = firstProbe
	}
	return permit{}, b.changed, wait
}

// broadcast wakes those who wait; b.mu is held.
func (b *breaker) broadcast() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// release ends a permit whose call told nothing: the next bucket may probe at once.
func (p permit) release() {
	if !p.probe {
		return
	}
	p.breaker.mu.Lock()
	defer p.breaker.mu.Unlock()
	p.breaker.probing = false
	p.breaker.broadcast()
}

// succeeded ends a permit whose call went well, and closes the breaker.
func (p permit) succeeded(l *bucketLoop) {
	b := p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.probe {
		b.probing = false
	}
	if b.reason == "" {
		return
	}
	l.logResume(b.since)
	b.reason, b.since = "", time.Time{}
	b.broadcast()
}

// failed ends a permit whose call failed, and opens the breaker.
func (p permit) failed(l *bucketLoop, err error) {
	if p.cut {
		p.release()
		return
	}
	b := p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reason == "":
		b.since, b.probeAt = time.Now(), time.Now().Add(max(firstProbe, askedFor(err)))
		l.logPause(err)
	case p.probe:
		b.probeAt = time.Now().Add(max(probeEvery, askedFor(err)))
	}
	if p.probe {
		b.probing = false
	}
	b.reason, b.class, b.failed = Shorten(err.Error(), MaxErrorText), ClassOf(err), l
	b.broadcast()
}

func (b *breaker) paused() (reason string, class Class, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reason, b.class, b.since
}
