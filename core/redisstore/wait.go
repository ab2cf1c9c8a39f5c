package redisstore

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// alarm wakes many sleepers, each at its time, with one timer.
type alarm struct {
	timer  *timer
	mu     sync.Mutex
	queue  sleepers
	closed bool
}

// sleeper waits for an alarm. Its owner sets it and receives from c.
type sleeper struct {
	c  chan struct{}
	at time.Time
	n  int // position in the queue; -1: it is in none
}

func newSleeper() *sleeper { return &sleeper{c: make(chan struct{}, 1), n: -1} }

func newAlarm() (*alarm, error) {
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	return &alarm{timer: timer}, nil
}

// run wakes until close is called.
func (a *alarm) run() {
	for a.timer.wait() {
		a.mu.Lock()
		for now := time.Now(); len(a.queue) > 0 && !a.queue[0].at.After(now); {
			s := heap.Pop(&a.queue).(*sleeper)
			select {
			case s.c <- struct{}{}:
			default:
			}
		}
		a.arm()
		a.mu.Unlock()
	}
}

// set has a sleeper be woken once after d. What is left over from before is gone.
func (a *alarm) set(s *sleeper, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(s)
	s.at = time.Now().Add(d)
	heap.Push(&a.queue, s)
	if s.n == 0 {
		a.arm()
	}
}

// unset has a sleeper not be woken any more.
func (a *alarm) unset(s *sleeper) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(s)
}

func (a *alarm) remove(s *sleeper) {
	if s.n >= 0 {
		heap.Remove(&a.queue, s.n)
	}
	select {
	case <-s.c:
	default:
	}
}

// arm sets the timer for the first in the queue.
func (a *alarm) arm() {
	if len(a.queue) > 0 && !a.closed {
		a.timer.set(max(1, time.Until(a.queue[0].at)))
	}
}

func (a *alarm) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.timer.close()
}

// sleepers is a heap by time.
type sleepers []*sleeper

func (q sleepers) Len() int           { return len(q) }
func (q sleepers) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q sleepers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].n, q[j].n = i, j
}

func (q *sleepers) Push(s any) {
	s.(*sleeper).n = len(*q)
	*q = append(*q, s.(*sleeper))
}

func (q *sleepers) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	s.n = -1
	return s
}

// Wait implements core.Bucket.
func (b *bucket) Wait(ctx context.Context, next time.Time) error {
	b.alarm.set(b.sleep, b.wait(next))
	defer b.alarm.unset(b.sleep)
	select {
	case <-b.sleep.c:
	case <-b.woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// idleGuards is after about how many guard periods an owner looks into its bucket
// though nothing woke it and the renewals tell that it has missed nothing.
const idleGuards = 12

// wait is for how long to wait. A long wait ends a little before next, so that what
// was found out of Redis's clock is not old when the message is due.
func (b *bucket) wait(next time.Time) time.Duration {
	guard := b.store.config.Guard
	look := idleGuards*guard/2 + rand.N(idleGuards*guard)
	if b.unswept > 0 {
		look = guard
	}
	if next.IsZero() {
		return look
	}
	left := b.clock.until(next)
	if left > guard {
		left -= left / 16
	}
	return min(look, left)
}
