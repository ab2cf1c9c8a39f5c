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

// Config is what a test asks of the store that it is given; the rest is the
// store's default. Bucket.Wait must have its guard period of 5 s or more.
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
	// Kill makes an instance die with what it has in hand: nothing that it does
	// from now on reaches the data, not even the hand-over of its buckets. Its
	// Serve must still return when its ctx has ended. Another instance then
	// comes to own its buckets. nil skips the tests that need it.
	Kill func(t *testing.T, store core.Store)
}

// patience bounds every wait for what must come.
const patience = 30 * time.Second

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
