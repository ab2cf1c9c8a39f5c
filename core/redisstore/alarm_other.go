//go:build !linux

package redisstore

import "time"

// alarm wakes its owner at a time, as precisely as the runtime's timers are.
type alarm struct {
	timer *time.Timer
	c     chan struct{}
	done  chan struct{}
}

func newAlarm() (*alarm, error) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &alarm{timer: timer, c: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// run passes on the ticks until close is called.
func (a *alarm) run() {
	for {
		select {
		case <-a.timer.C:
			select {
			case a.c <- struct{}{}:
			default:
			}
		case <-a.done:
			return
		}
	}
}

// set makes the alarm go off once after d.
func (a *alarm) set(d time.Duration) {
	select {
	case <-a.c:
	default:
	}
	a.timer.Reset(max(1, d))
}

func (a *alarm) close() { close(a.done) }
