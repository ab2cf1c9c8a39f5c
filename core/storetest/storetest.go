// Package storetest is the suite that every core.Store passes. Run tests rule by
// rule what core.Store promises; Model does random things to a store and to
// core/memstore, the readable specification, and compares every answer.
//
// The suite works in real time, as a store has a clock of its own: it asserts
// that nothing is early and never how late something is. It assumes that the
// store's clock and this machine's are less than a minute apart; Model, which
// compares due times, that they are the same.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// The sinks that the suite parks for.
const (
	Sink      = "orders"
	OtherSink = "parcels"
)

// Guard is the guard period that Bucket.Wait must have, or a longer one. It is
// much more than a busy machine holds up a wake-up, and less than the suite waits
// for what must come.
const Guard = 30 * time.Second

// Config is what a test asks of the store that it is given; the rest, but for the
// Guard, is the store's default.
type Config struct {
	Buckets int
	// DedupeWindow is by sink. A sink that is not in the map has two minutes;
	// zero is off.
	DedupeWindow map[string]time.Duration
	// HandsOver is whether the test waits for buckets to go from one instance to
	// another. Others want an owner to stay one however long the machine is busy.
	HandsOver bool
}

// Harness opens the store under test.
type Harness struct {
	// Open returns a store that holds nothing, and closes it when t ends. It
	// implements core.Inspector, too.
	Open func(t *testing.T, c Config) core.Store
	// Second returns another instance that shares the data of first and its
	// Config, and closes it when t ends. It may be first itself, where the data
	// belong to one instance. nil skips the tests that need it.
	Second func(t *testing.T, first core.Store) core.Store
	// Kill makes an instance die with what it has in flight: nothing that it does
	// from now on reaches the data, not even the hand-over of its buckets. Its
	// Serve must still return when its ctx has ended. Another instance then
	// comes to own its buckets. nil skips the tests that need it.
	Kill func(t *testing.T, store core.Store)
}

// patience bounds every wait for what must come.
const patience = time.Minute

// Run runs the suite, a subtest for each rule.
func Run(t *testing.T, h Harness) {
	groups := []struct {
		name  string
		rules []rule
	}{
		{"park", parkRules()},
		{"dedupe", dedupeRules()},
		{"take", takeRules()},
		{"wait", waitRules()},
		{"settle", settleRules()},
		{"change", changeRules()},
		{"find", findRules()},
		{"inspect", inspectRules()},
		{"timeline", timelineRules()},
		{"fleet", fleetRules()},
		{"serve", serveRules()},
		{"together", togetherRules()},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) { r.test(&suite{t, h}) })
			}
		})
	}
}

// rule is one promise of core.Store and its test.
type rule struct {
	name string
	test func(*suite)
}

// suite is the running test of one rule.
type suite struct {
	*testing.T
	Harness
}

// open returns an empty store with so many buckets.
func (s *suite) open(buckets int) core.Store {
	s.Helper()
	return s.Open(s.T, Config{Buckets: buckets})
}

// openAhead returns a store in which prepare has parked what the test needs, and
// when that is due, in whole milliseconds: later than prepare has returned. On a
// machine that is too slow for it, prepare is run again with an empty store.
func (s *suite) openAhead(buckets int, prepare func(store core.Store, due time.Time)) (core.Store, time.Time) {
	s.Helper()
	for lead := 1500 * time.Millisecond; lead < patience/2; lead *= 3 {
		store, due := s.open(buckets), time.Now().Add(lead).Truncate(time.Millisecond)
		prepare(store, due)
		if time.Now().Before(due) {
			return store, due
		}
	}
	s.Fatalf("the machine is too slow for this test")
	return nil, time.Time{}
}

// openTwo returns two instances of an empty store, or skips the test.
func (s *suite) openTwo(buckets int) (first, second core.Store) {
	s.Helper()
	if s.Second == nil {
		s.Skip("the store has one instance only")
	}
	first = s.Open(s.T, Config{Buckets: buckets, HandsOver: true})
	return first, s.Second(s.T, first)
}

// reporter is what the suite needs of a *testing.T; a *rapid.T has it too.
type reporter interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// patient returns a context that ends with the test's patience.
func patient(t reporter) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
