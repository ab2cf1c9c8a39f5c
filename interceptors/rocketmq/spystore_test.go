//go:build unix

package rocketmqsource

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// spyStore is a store in memory that tells what it has been given.
type spyStore struct {
	*memstore.Store
	mu         sync.Mutex
	parked     []*core.Message // new ones, in order
	duplicates int
	fail       error  // instead of parking, while it is set
	failed     int    // calls
	after      func() // each Park, before it returns
	changed    *sync.Cond
}

func newSpyStore() *spyStore {
	s := &spyStore{Store: newMemstore()}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *spyStore) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if s.fail != nil {
		s.failed++
		receipts := make([]core.Receipt, len(messages))
		for n, m := range messages {
			receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: s.fail}
		}
		return receipts
	}
	receipts := s.Store.Park(ctx, messages...)
	for n, receipt := range receipts {
		switch {
		case receipt.Duplicate:
			s.duplicates++
		case receipt.Err == nil:
			s.parked = append(s.parked, clone(messages[n]))
		}
	}
	if s.after != nil {
		s.after()
	}
	return receipts
}

func clone(m *core.Message) *core.Message {
	c := *m
	c.Key, c.Body, c.Headers = bytes.Clone(m.Key), bytes.Clone(m.Body), slices.Clone(m.Headers)
	for n := range c.Headers {
		c.Headers[n].Value = bytes.Clone(c.Headers[n].Value)
	}
	return &c
}

// until waits for what ok looks at with the lock held.
func (s *spyStore) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.AfterFunc(60*time.Second, func() { s.changed.Broadcast() })
	defer late.Stop()
	deadline := time.Now().Add(59 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s: %d parked, %d duplicates, %d failed calls", what, len(s.parked), s.duplicates, s.failed)
		}
		s.changed.Wait()
	}
}

// await returns the first want messages that were parked, in order.
func (s *spyStore) await(t testing.TB, want int) []*core.Message {
	t.Helper()
	s.until(t, strconv.Itoa(want)+" messages", func() bool { return len(s.parked) >= want })
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parked)
}

func (s *spyStore) setFail(err error) {
	s.mu.Lock()
	s.fail = err
	s.mu.Unlock()
}
