//go:build !linux

package redisstore

import "time"

// timer goes off as precisely as the runtime's timers do.
type timer struct {
	timer *time.Timer
	done  chan struct{}
}

func newTimer() (*timer, error) {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timer{timer: t, done: make(chan struct{})}, nil
}

// wait blocks until the timer goes off; it returns false when it is closed.
func (t *timer) wait() bool {
	select {
	case <-t.timer.C:
		return true
	case <-t.done:
		return false
	}
}

// set has the timer go off once after d.
func (t *timer) set(d time.Duration) { t.timer.Reset(d) }

func (t *timer) close() { close(t.done) }
