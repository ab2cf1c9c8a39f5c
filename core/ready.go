package core

import (
	"context"
	"fmt"
	"time"
)

const (
	// readyFor is how long what a look at the store found is answered, so that who
	// asks often, without a token even, does not cost the store more than that.
	readyFor = time.Second
	// lookTimeout bounds one look.
	lookTimeout = 3 * time.Second
)

// health is what the last look at the store found.
type health struct {
	looking chan struct{} // has room for the one who looks, and guards what follows
	at      time.Time     // zero: nobody has looked
	err     error
}

// Ready returns nil if messages can be accepted, or the reason why not; the result is
// at most a second old, and ErrEnded when the Bridge has ended. The error may name the store's address: show it only in the log
// and to callers who may read everything. Concurrent calls share one check of the
// store. A paused sink does not make the bridge unready: messages for it are still
// parked.
func (i *Interceptor) Ready(ctx context.Context) error {
	s, ok := i.begin()
	if !ok {
		return ErrEnded
	}
	defer s.calls.group.Done()
	store, ok := Ability[HealthChecker](i.store)
	if !ok {
		return nil
	}
	h := i.health
	select {
	case h.looking <- struct{}{}:
		defer func() { <-h.looking }()
	case <-ctx.Done():
		return fmt.Errorf("check the store: %w", ctx.Err())
	}
	if !h.at.IsZero() && time.Since(h.at) < readyFor {
		return h.err
	}
	// What it finds is for the others, too, so it does not end with the caller's wish.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	h.err = store.Health(ctx)
	h.at = time.Now()
	return h.err
}
