package source

import (
	"sync"
	"sync/atomic"
)

// Position is how far one partition or queue was read.
type Position struct {
	End    atomic.Int64 // after the last record there is
	Parked atomic.Int64 // after the last that is parked
}

// Lag is how many records are not parked.
func (p *Position) Lag() int64 { return max(p.End.Load()-p.Parked.Load(), 0) }

// Assigned are the partitions or queues that this instance reads now. The zero value is
// none. Safe for concurrent use.
type Assigned[P interface{ Lag() int64 }] struct {
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

// Lag is how many of their records are not parked; -1 if there are none of them.
func (a *Assigned[P]) Lag() int64 {
	lag := int64(-1)
	for _, p := range a.All() {
		lag = max(lag, 0) + p.Lag()
	}
	return lag
}
