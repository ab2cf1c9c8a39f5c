package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// How many takes, and how many settles, are at one server at once. A server runs one
// script at a time: more would only have renewals and what producers ask for wait behind
// them. Calls about messages that fail take longer, so the server rests from them for
// twice as long as one took before the next: however many messages fail, two thirds of
// its time are left for the others.
const (
	callsAtOnce   = 8
	failingAtOnce = 1
	restShare     = 2
	maxRest       = 100 * time.Millisecond // a server that does not answer rests anyway
)

// slots bound how many calls of one kind are at a server at once. Who waits for
// one has not begun the call, so that the wait takes nothing of the call's time.
type slots struct {
	most int
	rest int // a slot that was left is free after so many times as long as it was held
	mu   sync.Mutex
	used map[string]chan struct{} // by the server's address
}

// enter waits for a slot at the server that holds key, in the order of the
// callers. The slot is the caller's until it calls leave.
func (s *slots) enter(ctx context.Context, client redis.UniversalClient, key string) (leave func(), err error) {
	node, err := nodeOf(ctx, client, key)
	if err != nil {
		return nil, err
	}
	used := s.at(node.(*redis.Client).Options().Addr)
	select {
	case used <- struct{}{}:
		began := time.Now()
		return func() { s.leave(used, time.Since(began)) }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave frees a slot that was held for so long.
func (s *slots) leave(used <-chan struct{}, held time.Duration) {
	if s.rest == 0 {
		<-used
		return
	}
	time.AfterFunc(min(time.Duration(s.rest)*held, maxRest), func() { <-used })
}

func (s *slots) at(server string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[server] == nil {
		if s.used == nil {
			s.used = make(map[string]chan struct{})
		}
		s.used[server] = make(chan struct{}, s.most)
	}
	return s.used[server]
}
