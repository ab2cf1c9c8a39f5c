package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// checkHealthEvery is how old the last look at Redis may be when something is parked.
const checkHealthEvery = 5 * time.Second

// healthCheck remembers whether one server was safe when it was last looked at. Nobody looks
// by the clock: what is parked there looks first, if nobody has done so of late.
type healthCheck struct {
	mu     sync.Mutex
	looked time.Time
	unsafe error // nil: safe
}

// due tells whether the caller is to look now. Others need not meanwhile.
func (w *healthCheck) due(every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < every {
		return false
	}
	w.looked = time.Now()
	return true
}

func (w *healthCheck) saw(unsafe error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.unsafe = time.Now(), unsafe
}

func (w *healthCheck) seen() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsafe
}

// lookAt asks the server of a batch whether it is safe and gives the level of
// durability. What can't be asked leaves what was seen before as it is. Whoever allowed
// a volatile Redis has allowed one that is unsafe, but not a promise that does not hold.
func (s *Store) lookAt(ctx context.Context, w *healthCheck, b *parkBatch) {
	node, err := nodeOf(ctx, s.client, s.keys.owner(b.last.sink, b.last.bucket))
	if err != nil {
		return
	}
	found, err := inspectMaster(ctx, node)
	if err != nil {
		return // a Redis that is unreachable says so to what is parked next
	}
	w.saw(s.unsafe(found))
}

// unsafe is why nothing is to be parked on a server in this state.
func (s *Store) unsafe(f health) error {
	if broken := s.durable.broken(f); broken != nil || s.config.AllowVolatile {
		return broken
	}
	return f.checkSafe(false)
}

// lookShare, of a command's time, leaves what is parked time enough, where a server
// does not answer.
const lookShare = 6

// refusal is why nothing of b is to be parked now: nil, or core.ErrUnavailable as
// Redis may lose what is parked or as others write a format that is not known here.
func (s *Store) refusal(ctx context.Context, b *parkBatch) error {
	w := &b.queue.check
	if w.due(s.lookEvery) {
		ctx, cancel := context.WithTimeout(ctx, s.config.timeout/lookShare)
		defer cancel()
		s.lookAt(ctx, w, b)
	}
	s.keepFormats(ctx, s.client)
	if err := cmp.Or(w.seen(), s.outdated()); err != nil {
		return fmt.Errorf("park: %w: %w", core.ErrUnavailable, err)
	}
	return nil
}
