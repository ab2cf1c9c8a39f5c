package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// watchEvery is how old the last look at Redis may be when something is parked.
const watchEvery = 5 * time.Second

// watch remembers whether Redis was safe when it was last looked at. Nobody looks
// by the clock: what is parked looks first, if nobody has done so of late.
type watch struct {
	mu     sync.Mutex
	every  time.Duration
	looked time.Time
	unsafe error // nil: safe
}

// due tells whether the caller is to look now. Others need not meanwhile.
func (w *watch) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < w.every {
		return false
	}
	w.looked = time.Now()
	return true
}

func (w *watch) saw(unsafe error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.unsafe = time.Now(), unsafe
}

func (w *watch) seen() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsafe
}

// look asks Redis whether it is safe and gives the level of durability. What
// can't be asked leaves what was seen before as it is. Whoever allowed a volatile
// Redis has allowed one that is unsafe, but not a promise that does not hold.
func (s *Store) look(ctx context.Context) error {
	facts, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	unsafe, broken := facts.checkSafe(s.config.AllowVolatile), s.durable.broken(facts)
	if s.config.AllowVolatile {
		s.watch.saw(broken)
	} else {
		s.watch.saw(cmp.Or(unsafe, broken))
	}
	return cmp.Or(unsafe, broken)
}

// lookShare, of a command's time, leaves what is parked time enough, where one
// server of a cluster does not answer.
const lookShare = 6

// refusal is why nothing is to be parked now: nil, or core.ErrUnavailable as
// Redis may lose what is parked.
func (s *Store) refusal(ctx context.Context) error {
	if s.watch.due() {
		ctx, cancel := context.WithTimeout(ctx, s.config.timeout/lookShare)
		defer cancel()
		_ = s.look(ctx) // a Redis that is away says so to what is parked next
	}
	if unsafe := s.watch.seen(); unsafe != nil {
		return fmt.Errorf("park: %w: %w", core.ErrUnavailable, unsafe)
	}
	return nil
}
