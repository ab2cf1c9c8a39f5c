package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// arrival is one message as the sink saw it.
type arrival struct {
	id      string
	attempt int
	after   time.Duration // since the world began
}

// world is a bridge on a memstore in virtual time.
type world struct {
	t     *testing.T
	began time.Time
	store core.Store
	in    *core.Interceptor
	sinks map[string]*scripted
	stop  context.CancelFunc
	ended chan error
}

// scripted is a sink that answers as the test wants and keeps what it confirmed.
type scripted struct {
	mu      sync.Mutex
	answer  func(batch []*core.Message) error // nil confirms
	calls   int
	batches [][]string
	arrived []arrival
	closed  bool
	began   time.Time
}

func (s *scripted) Deliver(_ context.Context, batch []*core.Message) error {
	s.mu.Lock()
	s.calls++
	s.batches = append(s.batches, idsOf(batch))
	answer := s.answer
	s.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(batch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results, each := errors.AsType[core.BatchError](err)
	for n, m := range batch {
		if err == nil || each && results[n] == nil {
			s.arrived = append(s.arrived, arrival{m.ID, m.Attempt, time.Since(s.began)})
		}
	}
	return err
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// answers replaces the answer.
func (s *scripted) answers(answer func([]*core.Message) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *scripted) seen() (arrived []arrival, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrived), s.calls
}

func idsOf(batch []*core.Message) []string {
	ids := make([]string, len(batch))
	for n, m := range batch {
		ids[n] = m.ID
	}
	return ids
}

// inWorld runs test in a bubble with a bridge of one bucket for each sink.
func inWorld(t *testing.T, dispatchers []*core.Dispatcher, test func(w *world)) {
	t.Helper()
	inWorldOf(t, 1, dispatchers, test)
}

// inWorldOf is inWorld with so many buckets.
func inWorldOf(t *testing.T, buckets int, dispatchers []*core.Dispatcher, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, began: time.Now(), store: memstore.New(memstore.Config{Buckets: buckets}),
			sinks: make(map[string]*scripted), ended: make(chan error, 1)}
		for _, d := range dispatchers {
			sink := &scripted{began: w.began}
			w.sinks[d.Name], d.Sink = sink, sink
		}
		bridge := core.NewBridge(w.store, core.Options{}, dispatchers...)
		w.in = bridge.Interceptor
		ctx, stop := context.WithCancel(t.Context())
		w.stop = stop
		go func() { w.ended <- bridge.Run(ctx) }()
		synctest.Wait()
		test(w)
		stop()
		if err := <-w.ended; err != nil {
			t.Errorf("bridge ended with %v", err)
		}
	})
}

func orders(edit func(*core.Dispatcher)) []*core.Dispatcher {
	d := &core.Dispatcher{Name: "orders", Retry: core.RetryPolicy{Jitter: -1}}
	if edit != nil {
		edit(d)
	}
	return []*core.Dispatcher{d}
}

func (w *world) accept(messages ...*core.Message) {
	w.t.Helper()
	for _, r := range w.in.Accept(w.t.Context(), messages...) {
		if r.Err != nil {
			w.t.Fatalf("accept %s: %v", r.ID, r.Err)
		}
	}
}

func (w *world) wantArrivals(sink string, want ...arrival) {
	w.t.Helper()
	got, _ := w.sinks[sink].seen()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s saw %v, want %v", sink, got, want)
	}
}

func (w *world) wantState(id string, state core.State, reason string) core.Entry {
	w.t.Helper()
	e, err := w.in.Get(w.t.Context(), core.Ref{ID: id})
	if err != nil || e.State != state || e.Reason != reason {
		w.t.Errorf("%s is %s because of %q (%v), want %s because of %q", id, e.State, e.Reason, err, state, reason)
	}
	return e
}

func message(id string, delay time.Duration, edits ...func(*core.Message)) *core.Message {
	m := &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: delay}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func option(name, value string) func(*core.Message) {
	return func(m *core.Message) { m.Options = map[string]string{name: value} }
}

// failing answers every batch with err for each message.
func failing(err error) func([]*core.Message) error {
	return func(batch []*core.Message) error {
		results := make(core.BatchError, len(batch))
		for n := range results {
			results[n] = err
		}
		return results
	}
}

var errBroker = errors.New("broker says no")
