// Package stall tells how long a machine let nobody run, as when the host of
// a virtual one takes the processors.
package stall

import (
	"sync"
	"time"
)

const (
	every    = 10 * time.Millisecond
	everyAsk = 100 * time.Millisecond // which makes a connection
)

// Watch looks until stop, which returns the longest time for which a goroutine did
// not run though it was its turn. stop may be called more than once.
func Watch() (stop func() time.Duration) {
	return watch(every, func() error { return nil })
}

// WatchServer is Watch for a server that is asked all the time: stop returns the
// longest time for which it did not answer.
func WatchServer(ask func() error) (stop func() time.Duration) { return watch(everyAsk, ask) }

func watch(every time.Duration, ask func() error) (stop func() time.Duration) {
	over, longest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		most := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-over:
				longest <- max(most, time.Since(last)-every)
				return
			}
			err, now := ask(), time.Now()
			most = max(most, now.Sub(last)-every)
			if err == nil {
				last = now
			}
		}
	}()
	return sync.OnceValue(func() time.Duration { close(over); return <-longest })
}
