// Package sourcetest is what the tests of all sources share: a store that tells what
// is parked, a source at work, a network that can be cut, and a benchmark.
package sourcetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// Store is a store in memory that tells what it has been given. Its fields are
// guarded by its mutex while a source runs.
type Store struct {
	*memstore.Store
	sync.Mutex
	Parked     []*core.Message // new ones, in order
	Duplicates int
	Failed     int    // calls
	After      func() // each Park, before it returns

	fail error
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{Store: memstore.New(memstore.Config{})} }

// Park parks, unless SetFail has set an error.
func (s *Store) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.Lock()
	defer s.Unlock()
	if s.fail != nil {
		s.Failed++
		return receipts(messages, s.fail)
	}
	given := s.Store.Park(ctx, messages...)
	for n, receipt := range given {
		switch {
		case receipt.Duplicate:
			s.Duplicates++
		case receipt.Err == nil:
			s.Parked = append(s.Parked, clone(messages[n]))
		}
	}
	if s.After != nil {
		s.After()
	}
	return given
}

func receipts(messages []*core.Message, err error) []core.Receipt {
	all := make([]core.Receipt, len(messages))
	for n, m := range messages {
		all[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
	}
	return all
}

func clone(m *core.Message) *core.Message {
	c := *m
	c.Key, c.Body, c.Headers = slices.Clone(m.Key), slices.Clone(m.Body), slices.Clone(m.Headers)
	for n := range c.Headers {
		c.Headers[n].Value = slices.Clone(c.Headers[n].Value)
	}
	return &c
}

// SetFail has Park answer with err from now on; nil ends that.
func (s *Store) SetFail(err error) {
	s.Lock()
	defer s.Unlock()
	s.fail = err
}

// Until waits for what holds, which is called with the lock held.
func (s *Store) Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !poll.Holds(2*time.Minute, func() bool { s.Lock(); defer s.Unlock(); return holds() }) {
		s.Lock()
		defer s.Unlock()
		t.Fatalf("waited too long for %s: %d parked, %d duplicates, %d failed calls", what, len(s.Parked), s.Duplicates, s.Failed)
	}
}

// Await returns what is parked, in order, as soon as that is want messages.
func (s *Store) Await(t testing.TB, want int) (parked []*core.Message) {
	t.Helper()
	s.Until(t, "messages", func() bool { parked = slices.Clone(s.Parked); return len(parked) >= want })
	return parked
}
