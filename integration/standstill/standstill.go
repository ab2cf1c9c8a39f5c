// Package standstill tells how long a machine let nobody run, as when the host of
// a virtual one takes the processors.
package standstill

import (
	"sync"
	"time"
)

const every = 10 * time.Millisecond

// Watch looks until stop, which returns the longest time for which a goroutine did
// not run though it was its turn. stop may be called more than once.
func Watch() (stop func() time.Duration) {
	over, longest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		most := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-over:
				longest <- most
				return
			}
			now := time.Now()
			most = max(most, now.Sub(last)-every)
			last = now
		}
	}()
	return sync.OnceValue(func() time.Duration { close(over); return <-longest })
}
