package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

const (
	// modelBuckets is enough for messages that share an ID, a bucket, both or
	// none.
	modelBuckets = 2
	modelSteps   = 60
)

// Model does the same random things to the store under test and to memstore and
// compares every answer. The flags of rapid apply, such as -rapid.checks. Each
// check has a sink of its own in one store, with the default dedupe window.
func Model(t *testing.T, h Harness) {
	tested := h.Open(t, Config{Buckets: modelBuckets})
	specified := memstore.New(memstore.Config{Buckets: modelBuckets})
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		m := newModel(t, fmt.Sprintf("model-%d", checks), tested, specified)
		for range modelSteps {
			m.step(t)
		}
	})
}

// step is one random call. Those that open up others come more often.
func (m *model) step(t *rapid.T) {
	steps := []func(*rapid.T){
		m.park, m.park, m.park, m.parkMany, m.parkGenerated, m.cancel, m.reschedule, m.reschedule,
		m.redrive, m.discard, m.get, m.list, m.stats, m.take, m.take, m.take, m.settle, m.settle, m.settle,
	}
	steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")](t)
}

// model is one check.
type model struct {
	sink  string
	began time.Time
	far   time.Time // absolute due times are around this one
	sides [2]*side  // under test, specified
	// generated are the messages with generated IDs, which go by names here, as
	// each store makes its own.
	generated []draft
	known     []draft // all that have been parked
	inFlight  [modelBuckets][]taken
}

// taken is a message in flight.
type taken struct {
	name    string
	attempt int
}

// side is one of the two stores, and how it calls things.
type side struct {
	store   core.Store
	buckets [modelBuckets]core.Bucket // by number
	ids     map[string]string         // generated IDs by name
	names   map[string]string         // and back
}

func newModel(t *rapid.T, sink string, tested, specified core.Store) *model {
	m := &model{sink: sink, began: time.Now()}
	m.far = m.began.Add(1000 * time.Hour).Truncate(time.Hour)
	for n, store := range []core.Store{tested, specified} {
		m.sides[n] = &side{store: store, ids: make(map[string]string), names: make(map[string]string)}
		m.sides[n].own(t, sink)
	}
	return m
}

// own serves the sink and finds out which bucket is which, by the key of a
// message in each.
func (s *side) own(t *rapid.T, name string) {
	for n := range s.buckets {
		park(t, s.store, message("", sink(name), key(keyIn(n, modelBuckets))))
	}
	for _, b := range own(t, s.store, name, modelBuckets).buckets {
		one := &owner{t: t, buckets: []core.Bucket{b}}
		m := one.await(1).Messages[0]
		s.buckets[core.BucketOf(m.Key, "", modelBuckets)] = b
		one.settle(delivered(m.ID))
	}
}

// id translates a name into what this side calls it.
func (s *side) id(name string) string {
	if id, ok := s.ids[name]; ok {
		return id
	}
	return name
}

func (s *side) name(id string) string {
	if name, ok := s.names[id]; ok {
		return name
	}
	return id
}

// compare asks both sides and wants the same answer.
func (m *model) compare(t *rapid.T, what string, ask func(*side) string) {
	t.Helper()
	tested, specified := ask(m.sides[0]), ask(m.sides[1])
	if tested != specified {
		t.Fatalf("%s:\n    is %s\nwant %s", what, tested, specified)
	}
	t.Logf("%s: %s", what, tested)
}

// tick lets two milliseconds pass, so that what is relative to now, in this
// step and in the next, differs in both stores and has passed in both.
func (m *model) tick() { <-time.After(2 * time.Millisecond) }

// label writes a time so that both stores can agree on it: relative to now
// where it was given so, else exactly.
func (m *model) label(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	for hours := range 3 {
		offset := time.Duration(hours) * time.Hour
		low, high := m.began.Add(offset-time.Millisecond), time.Now().Add(offset+time.Millisecond)
		if !t.Before(low) && !t.After(high) {
			return fmt.Sprintf("now+%dh", hours)
		}
	}
	return t.UTC().Format(core.TimeFormat)
}
