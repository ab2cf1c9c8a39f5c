package source

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Position is how far one partition or queue was read.
type Position struct {
	End    atomic.Int64 // after the last record there is
	Parked atomic.Int64 // after the last that is parked
	sent   atomic.Int64 // when that was written, in milliseconds; 0 is unknown
}

// Sent notes when the last record that is parked was written; zero is unknown.
func (p *Position) Sent(at time.Time) {
	if at.IsZero() {
		at = time.UnixMilli(0)
	}
	p.sent.Store(at.UnixMilli())
}

// Lag is how many records are not parked.
func (p *Position) Lag() int64 { return max(p.End.Load()-p.Parked.Load(), 0) }

// LagTime is the age of the last record that is parked, zero if Lag is; negative if it
// is not known.
func (p *Position) LagTime() time.Duration {
	switch sent := p.sent.Load(); {
	case p.Lag() == 0:
		return 0
	case sent <= 0:
		return -1
	default:
		return max(0, time.Since(time.UnixMilli(sent)))
	}
}

// Assigned are the partitions or queues that this instance reads now. The zero value is
// none. Safe for concurrent use.
type Assigned[P interface {
	Lag() int64
	LagTime() time.Duration
}] struct {
	mu  sync.Mutex
	now []P
}

// Set replaces them. now must not change after.
func (a *Assigned[P]) Set(now []P) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
}

// All returns them, to be read only.
func (a *Assigned[P]) All() []P {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// Report fills in Lag and LagTime: how many of their records are not parked, and the
// greatest of their ages; both -1 if there are none of them.
func (a *Assigned[P]) Report(r *core.SourceReport) {
	r.Lag, r.LagTime = -1, -1
	for _, p := range a.All() {
		r.Lag = max(r.Lag, 0) + p.Lag()
		r.LagTime = max(r.LagTime, p.LagTime())
	}
}
