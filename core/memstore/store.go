// Package memstore implements core.Store in memory, for tests and experiments; the
// messages are lost when the process ends. It is the reference implementation: where
// the documentation of core.Store leaves a question open, this package answers it, and
// every other Store behaves the same.
//
// One mutex guards everything. A sink has buckets (bucket.go), a bucket has
// records (record.go), and a record is at one of three places: waiting, in flight
// or dead. Serve and the owner of a bucket are in serve.go and lease.go, the
// calls by ID in find.go and change.go.
package memstore

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Buckets is the number of buckets of each sink; default 16, more than
	// core.MaxBuckets counts as core.MaxBuckets.
	Buckets int
	// DedupeWindow is, for each sink, how long the ID of a settled message is
	// remembered and not accepted again. The default of a sink is two minutes; zero is
	// off.
	DedupeWindow map[string]time.Duration
	// Guard bounds how long Bucket.Wait blocks; default 5 s.
	Guard time.Duration
	// Log receives a line when work has failed and is restarted; nil discards.
	Log *slog.Logger
}

const (
	defaultBuckets      = 16
	defaultDedupeWindow = 2 * time.Minute
	defaultGuard        = 5 * time.Second
)

// Store implements core.Store, core.Inspector, core.Fleet and core.HealthChecker. It uses
// the clock of the process. Only Serve and Bucket.Wait block and observe their context.
type Store struct {
	buckets int
	windows map[string]time.Duration
	guard   time.Duration
	log     *slog.Logger
	ids     *core.IDs

	mu     sync.Mutex // guards all that hangs on sinks, and report
	sinks  map[string]*sink
	report func() []byte // see Announce
}

// sink is what the store holds for one way out.
type sink struct {
	name    string
	buckets []*bucket
	turn    chan struct{} // has room for the one Serve that is at work
}

// New returns an empty store. It starts no goroutine and needs no Close.
func New(config Config) *Store {
	s := &Store{
		buckets: min(max(cmp.Or(config.Buckets, defaultBuckets), 1), core.MaxBuckets),
		windows: config.DedupeWindow,
		guard:   cmp.Or(config.Guard, defaultGuard),
		log:     config.Log,
		ids:     core.NewIDs(),
		sinks:   make(map[string]*sink),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// sink returns the sink of that name, new if need be; s.mu is held.
func (s *Store) sink(name string) *sink {
	if known, ok := s.sinks[name]; ok {
		return known
	}
	window, ok := s.windows[name]
	if !ok {
		window = defaultDedupeWindow
	}
	made := &sink{name: name, turn: make(chan struct{}, 1)}
	for n := range s.buckets {
		made.buckets = append(made.buckets, newBucket(name, n, window))
	}
	s.sinks[name] = made
	return made
}

// Park implements core.Store. Its only errors are core.ErrConflict and
// core.ErrCancelled.
func (s *Store) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = s.park(m, time.Now())
	}
	return receipts
}

func (s *Store) park(m *core.Message, now time.Time) core.Receipt {
	b := s.sink(m.Sink).buckets[s.ids.Place(m, s.buckets, rand.IntN(s.buckets))]
	b.forget(now)
	if r, ok := b.records[m.ID]; ok {
		if !core.SameContent(&r.message, m) {
			return core.Receipt{ID: m.ID, Sink: m.Sink, Err: core.ErrConflict}
		}
		receipt := r.receipt(r.state())
		receipt.Duplicate = true
		return receipt
	}
	if old, ok := b.memories[m.ID]; ok {
		if old.state == core.Cancelled {
			return core.Receipt{ID: m.ID, Sink: m.Sink, State: old.state, Err: core.ErrCancelled}
		}
		return core.Receipt{ID: m.ID, Sink: m.Sink, State: old.state, Duplicate: true, Durability: durability}
	}
	r := newRecord(m, now)
	b.records[m.ID] = r
	b.schedule(r, r.message.DeliverAt)
	return r.receipt(core.Scheduled)
}

const durability = "memory"

// Durability returns the level at which Park accepts.
func (s *Store) Durability() string { return durability }

// instance is the name of the only instance there is.
const instance = "memory"

// Announce implements core.Fleet.
func (s *Store) Announce(report func() []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
	return instance
}

// Announced implements core.Fleet: this instance alone, as it is now.
func (s *Store) Announced(context.Context) ([]core.Announcement, error) {
	s.mu.Lock()
	report := s.report
	s.mu.Unlock()
	a := core.Announcement{Instance: instance, Age: -1}
	if report != nil {
		if text := report(); len(text) <= core.MaxReport {
			a.Age, a.Report = 0, text
		}
	}
	return []core.Announcement{a}, nil
}

// Health implements core.HealthChecker; a store in memory can always work.
func (s *Store) Health(context.Context) error { return nil }

// Close implements core.Store. There is nothing to release.
func (s *Store) Close() error { return nil }
