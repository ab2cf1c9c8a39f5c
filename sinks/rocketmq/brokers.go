package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// brokers remembers which brokers failed, by name, and tries them before they
// are sent to again: what is not sent to a broker that is unreachable or hangs has no
// unknown outcome. Each has workers of its own, so that one that hangs holds up
// only what goes to it.
type brokers struct {
	try     func(name string) error // bounded; nil is alive
	workers int                     // of each

	mu    sync.RWMutex
	known map[string]*brokerState
}

// brokerState is what is known of a broker that was to be sent to.
type brokerState struct {
	workers chan struct{} // holds a token for each request under way
	failed  time.Time     // last; zero if it has worked since, or never failed
	// trial is the try under way or, for a short time, the last; nil if none.
	trial *trial
}

type trial struct {
	began time.Time
	ended chan struct{}
	err   error // once ended is closed
	until time.Time
}

const (
	// avoidFor is how long a broker that failed is passed over where another
	// works. It is longer than a send may take, so that the rest of a batch
	// does not wait for the same broker again.
	avoidFor = 5 * time.Second
	// trialHolds is how long a failed try answers for others.
	trialHolds = 200 * time.Millisecond
	// moment is how long, from its beginning, a try is waited for where another
	// broker works. What is alive answers sooner.
	moment = 100 * time.Millisecond
)

var (
	errLately = errors.New("broker has failed lately")
	errSilent = errors.New("broker has failed and does not respond")
)

func newBrokers(try func(name string) error, workers int) *brokers {
	return &brokers{try: try, workers: workers, known: map[string]*brokerState{}}
}

// workersOf holds a token for each request to a broker that is under way.
func (b *brokers) workersOf(name string) chan struct{} {
	b.mu.RLock()
	state := b.known[name]
	b.mu.RUnlock()
	if state != nil {
		return state.workers
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state(name).workers
}

// state is that of a broker, which is known from now on; b.mu is held.
func (b *brokers) state(name string) *brokerState {
	if b.known[name] == nil {
		b.known[name] = &brokerState{workers: make(chan struct{}, b.workers)}
	}
	return b.known[name]
}

// keep forgets brokers that are registered no more, unless they are in trouble.
func (b *brokers) keep(registered map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, state := range b.known {
		if registered[name] == "" && state.failed.IsZero() {
			delete(b.known, name)
		}
	}
}

// failure is when a broker failed, if it has not worked since, else zero.
func (b *brokers) failure(name string) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if state := b.known[name]; state != nil {
		return state.failed
	}
	return time.Time{}
}

// works reports whether a broker may be sent to without more ado. One that has
// failed lately may not, nor after that until it has given a sign of life: works
// has it tried and does not wait.
func (b *brokers) works(name string) bool {
	failed := b.failure(name)
	if failed.IsZero() {
		return true
	}
	if time.Since(failed) >= avoidFor {
		b.trialOf(name)
	}
	return false
}

// othersWork reports whether a broker besides this one has been sent to, and has
// not failed.
func (b *brokers) othersWork(name string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for other, state := range b.known {
		if other != name && state.failed.IsZero() {
			return true
		}
	}
	return false
}

// note reports that a send to a broker has succeeded or failed.
func (b *brokers) note(name string, ok bool) {
	if ok && b.failure(name).IsZero() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state(name)
	if ok {
		state.failed, state.trial = time.Time{}, nil
		return
	}
	state.failed = time.Now()
}

// confirm returns nil if a broker may be sent to: it works, or it has failed
// but gives a sign of life. One try serves all who ask meanwhile. If others
// work, a broker that failed lately is not tried, and a sign of life is waited
// for no longer than a moment.
func (b *brokers) confirm(ctx context.Context, name string, othersWork bool) error {
	if othersWork && time.Since(b.failure(name)) < avoidFor {
		return errLately
	}
	t := b.trialOf(name)
	if t == nil {
		return nil
	}
	var late <-chan time.Time
	if othersWork {
		timer := time.NewTimer(time.Until(t.began.Add(moment)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.ended:
		return t.err
	case <-late:
		return errSilent
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errSilent, context.Cause(ctx))
	}
}

// trialOf begins a try if the last is too old. It returns nil for a broker that
// needs none.
func (b *brokers) trialOf(name string) *trial {
	if b.failure(name).IsZero() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state(name)
	if state.failed.IsZero() {
		return nil
	}
	if t := state.trial; t == nil || !t.until.IsZero() && time.Now().After(t.until) {
		state.trial = &trial{began: time.Now(), ended: make(chan struct{})}
		go b.run(state.trial, name)
	}
	return state.trial
}

// run makes a try. A broker that gives a sign of life has no trouble any more,
// unless it has failed again meanwhile.
func (b *brokers) run(t *trial, name string) {
	err := b.try(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	t.err, t.until = err, time.Now().Add(trialHolds)
	close(t.ended)
	if state := b.state(name); err == nil && state.trial == t && state.failed.Before(t.began) {
		state.failed, state.trial = time.Time{}, nil
	}
}
