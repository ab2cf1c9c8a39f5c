package rocketmq

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// brokers remembers which brokers failed, by name, and tries them before they
// are sent to again: what is not sent to a broker that is away or hangs has no
// unknown outcome.
type brokers struct {
	try func(name string) error // bounded; nil is alive

	mu     sync.RWMutex
	failed map[string]*brokerTrouble
}

// brokerTrouble is the state of a broker that has failed and not worked since.
type brokerTrouble struct {
	since time.Time
	// trial is the try under way or, for a short time, the last; nil if none.
	trial *trial
}

type trial struct {
	ended chan struct{}
	err   error // once ended is closed
	until time.Time
}

const (
	// avoidFor is how long a broker that failed is passed over where another
	// will do. It is longer than a send may take, so that the rest of a batch
	// does not wait for the same broker again.
	avoidFor = 5 * time.Second
	// trialHolds is how long a failed try answers for others.
	trialHolds = 200 * time.Millisecond
)

func newBrokers(try func(name string) error) *brokers {
	return &brokers{try: try, failed: map[string]*brokerTrouble{}}
}

// troubled tells whether a broker failed lately.
func (b *brokers) troubled(name string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	trouble := b.failed[name]
	return trouble != nil && time.Since(trouble.since) < avoidFor
}

// note tells that a send to a broker has succeeded or failed.
func (b *brokers) note(name string, ok bool) {
	if ok && !b.suspect(name) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		delete(b.failed, name)
		return
	}
	trouble := b.failed[name]
	if trouble == nil {
		trouble = &brokerTrouble{}
		b.failed[name] = trouble
	}
	trouble.since = time.Now()
}

func (b *brokers) suspect(name string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.failed[name] != nil
}

// confirm returns nil if a broker may be sent to: it works, or it has failed
// but gives a sign of life. One try serves all who ask meanwhile.
func (b *brokers) confirm(ctx context.Context, name string) error {
	t := b.trialOf(name)
	if t == nil {
		return nil
	}
	select {
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("broker has failed and gives no sign of life: %w", context.Cause(ctx))
	}
}

// trialOf begins a try if the last is too old. It returns nil for a broker that
// needs none.
func (b *brokers) trialOf(name string) *trial {
	if !b.suspect(name) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	trouble := b.failed[name]
	if trouble == nil {
		return nil
	}
	if t := trouble.trial; t == nil || !t.until.IsZero() && time.Now().After(t.until) {
		trouble.trial = &trial{ended: make(chan struct{})}
		go b.run(trouble.trial, name)
	}
	return trouble.trial
}

func (b *brokers) run(t *trial, name string) {
	err := b.try(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	t.err, t.until = err, time.Now().Add(trialHolds)
	close(t.ended)
}
