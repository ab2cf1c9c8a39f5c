package core

import (
	"context"
	"sync"
	"time"
)

// While a gate is closed, one bucket at a time may try one message: first soon,
// as most trouble is a blip, then once a second.
const (
	firstProbe = 100 * time.Millisecond
	probeEvery = time.Second
	// othersFirst is for how long a bucket whose call failed leaves the probe to others.
	othersFirst = 5 * time.Millisecond
)

// gate holds a sink's buckets back while the sink is in trouble. The zero value
// is open.
type gate struct {
	mu      sync.Mutex
	reason  string // empty: open
	since   time.Time
	probeAt time.Time
	probing bool
	// failed is whose call failed last: others are to probe before it, as it may be one of
	// its messages that can't be sent.
	failed  *bucketLoop
	changed chan struct{} // closed at the next change, if anyone waits
}

// pass is the leave to take messages once. Each pass ends with exactly one of
// leave (nothing was learnt), open and close.
type pass struct {
	gate  *gate
	probe bool
	// cut: the delivery ended with its bucket, so that bad news is none of the
	// sink's.
	cut bool
}

// enter blocks while the gate is closed and it is not this caller's turn to
// probe. It returns false when ctx has ended.
func (g *gate) enter(ctx context.Context, l *bucketLoop) (pass, bool) {
	for ctx.Err() == nil {
		p, changed, wait := g.try(l)
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
	return pass{}, false
}

// try returns a pass, or how long to wait (and for what) before trying again.
func (g *gate) try(l *bucketLoop) (p pass, changed <-chan struct{}, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		return pass{gate: g}, nil, -1
	}
	wait = time.Until(g.probeAt)
	if l == g.failed {
		wait += othersFirst
	}
	if !g.probing && wait <= 0 {
		g.probing = true
		return pass{gate: g, probe: true}, nil, -1
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	if wait <= 0 { // another probes
		wait = firstProbe
	}
	return pass{}, g.changed, wait
}

// broadcast wakes those who wait; g.mu is held.
func (g *gate) broadcast() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// leave ends a pass without news: the next bucket may probe at once.
func (p pass) leave() {
	if !p.probe {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.gate.probing = false
	p.gate.broadcast()
}

// open ends a pass with good news.
func (p pass) open(l *bucketLoop) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.probe {
		g.probing = false
	}
	if g.reason == "" {
		return
	}
	l.logResume(g.since)
	g.reason, g.since = "", time.Time{}
	g.broadcast()
}

// close ends a pass with bad news.
func (p pass) close(l *bucketLoop, err error) {
	if p.cut {
		p.leave()
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.reason == "":
		g.since, g.probeAt = time.Now(), time.Now().Add(max(firstProbe, askedFor(err)))
		l.logPause(err)
	case p.probe:
		g.probeAt = time.Now().Add(max(probeEvery, askedFor(err)))
	}
	if p.probe {
		g.probing = false
	}
	g.reason, g.failed = Shorten(err.Error(), MaxErrorText), l
	g.broadcast()
}

func (g *gate) paused() (string, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason, g.since
}
