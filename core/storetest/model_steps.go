package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/core"
)

// draft is a message before each side has given it its ID.
type draft struct {
	name    string
	message core.Message
}

// on returns the message as the side is to park it.
func (d draft) on(s *side) *core.Message {
	m := d.message
	m.ID = s.id(d.name)
	return &m
}

var (
	modelNames = []string{"a", "b", "c", "d"}
	// Two of the keys share a bucket.
	modelKeys = [][]byte{nil, []byte(keyIn(0, modelBuckets)), []byte(keyIn(1, modelBuckets)), []byte("k" + keyIn(0, modelBuckets)), {}}
)

func draw[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// draft draws a message. Its content follows mostly from its name, so that the
// same is parked again often.
func (m *model) draft(t *rapid.T) draft {
	name := draw(t, "id", append(modelNames, "")...)
	d := draft{name, core.Message{Sink: m.sink, Topic: draw(t, "topic", "t", "t", "t", "u"), Generated: name == ""}}
	d.message.Key = draw(t, "key", modelKeys...)
	d.message.Priority = draw(t, "priority", 0, 0, 0, 1, core.MaxPriority)
	d.message.Body = draw(t, "body", []byte("body"), []byte("body"), []byte("body"), []byte{}, nil)
	if d.message.Generated && d.message.Key == nil {
		d.message.Key = modelKeys[1] // else each store chooses its own bucket
	}
	return d
}

// when draws a due time.
func (m *model) when(t *rapid.T, kinds ...string) core.When {
	switch kind := draw(t, "when", kinds...); kind {
	case "now":
		return core.When{}
	case "past":
		return core.When{At: m.began.Add(-time.Hour)}
	case "hour":
		return core.When{After: time.Hour}
	default:
		return core.When{At: m.far.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "ms")) * time.Millisecond)}
	}
}

func (m *model) schedule(t *rapid.T, d *draft, kinds ...string) {
	when := m.when(t, kinds...)
	d.message.DeliverAt, d.message.Delay = when.At, when.After
	switch far := when.At.After(m.began); {
	case rapid.IntRange(0, 3).Draw(t, "expiry") > 0:
	case far:
		d.message.ExpiresAt = when.At.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "ms")) * time.Millisecond)
	default:
		d.message.TTL = 2 * time.Hour
	}
}

// parkAll parks drafts in one call.
func (m *model) parkAll(t *rapid.T, drafts ...draft) {
	m.compare(t, "park", func(s *side) string {
		messages := make([]*core.Message, len(drafts))
		for n, d := range drafts {
			messages[n] = d.on(s)
		}
		var answers []string
		for n, r := range s.store.Park(context.Background(), messages...) {
			if drafts[n].message.Generated && r.Err == nil {
				s.ids[drafts[n].name], s.names[r.ID] = r.ID, drafts[n].name
			}
			answers = append(answers, m.receipt(s, r, r.Err))
		}
		return strings.Join(answers, "; ")
	})
	for _, d := range drafts {
		m.known = append(m.known, d)
		if d.message.Generated {
			m.generated = append(m.generated, d)
		}
	}
}

// number names a draft that will have a generated ID.
func (m *model) number(d *draft) {
	if d.message.Generated {
		d.name = fmt.Sprintf("generated-%d", len(m.generated))
	}
}

func (m *model) park(t *rapid.T) {
	d := m.draft(t)
	m.number(&d)
	m.schedule(t, &d, "now", "now", "past", "hour", "far")
	m.parkAll(t, d)
	m.tick()
}

// parkMany parks several with absolute times, as a store need not read its clock
// for all at once.
func (m *model) parkMany(t *rapid.T) {
	drafts := make([]draft, rapid.IntRange(2, 4).Draw(t, "n"))
	for n := range drafts {
		drafts[n] = m.draft(t)
		if drafts[n].message.Generated {
			drafts[n].name, drafts[n].message.Generated = "a", false
		}
		m.schedule(t, &drafts[n], "far")
	}
	m.parkAll(t, drafts...)
}

// parkGenerated repeats a message under the ID that it was given.
func (m *model) parkGenerated(t *rapid.T) {
	if len(m.generated) == 0 {
		return
	}
	d := draw(t, "message", m.generated...)
	d.message.Generated = false
	m.parkAll(t, d)
	m.tick()
}

// ref draws the name and key of a message, mostly of one that was parked.
func (m *model) ref(t *rapid.T) func(*side) core.Ref {
	name, key := draw(t, "id", append(modelNames, "unheard-of")...), draw(t, "key", modelKeys...)
	if len(m.known) > 0 && rapid.IntRange(0, 7).Draw(t, "known") > 0 {
		d := draw(t, "message", m.known...)
		name, key = d.name, draw(t, "key", nil, d.message.Key, d.message.Key)
	}
	return func(s *side) core.Ref { return core.Ref{ID: s.id(name), Sink: m.sink, Key: key} }
}

// deadRef draws the name and key of a dead letter, if there is one.
func (m *model) deadRef(t *rapid.T) func(*side) core.Ref {
	specified := m.sides[1]
	query := core.Query{Sinks: []string{m.sink}, States: []core.State{core.Dead, core.Expired}}
	dead := list(t, specified.store, query).Entries
	if len(dead) == 0 || rapid.IntRange(0, 7).Draw(t, "any") == 0 {
		return m.ref(t)
	}
	entry := dead[rapid.IntRange(0, len(dead)-1).Draw(t, "dead letter")]
	name, key := specified.name(entry.Message.ID), draw(t, "key", nil, entry.Message.Key)
	return func(s *side) core.Ref { return core.Ref{ID: s.id(name), Sink: m.sink, Key: key} }
}

func (m *model) change(t *rapid.T, what string, call func(*side, core.Ref) (core.Receipt, error)) {
	m.changeOne(t, what, m.ref(t), call)
}

func (m *model) changeDead(t *rapid.T, what string, call func(*side, core.Ref) (core.Receipt, error)) {
	m.changeOne(t, what, m.deadRef(t), call)
}

func (m *model) changeOne(t *rapid.T, what string, ref func(*side) core.Ref, call func(*side, core.Ref) (core.Receipt, error)) {
	m.compare(t, what, func(s *side) string {
		receipt, err := call(s, ref(s))
		return m.receipt(s, receipt, err)
	})
	m.tick()
	m.getOne(t, ref)
}

func (m *model) cancel(t *rapid.T) {
	m.change(t, "cancel", func(s *side, ref core.Ref) (core.Receipt, error) {
		return s.store.Cancel(context.Background(), ref)
	})
}

func (m *model) reschedule(t *rapid.T) {
	when := m.when(t, "now", "past", "hour", "far")
	m.change(t, "reschedule", func(s *side, ref core.Ref) (core.Receipt, error) {
		return s.store.Reschedule(context.Background(), ref, when)
	})
}

func (m *model) redrive(t *rapid.T) {
	m.changeDead(t, "redrive", func(s *side, ref core.Ref) (core.Receipt, error) {
		return s.store.Redrive(context.Background(), ref)
	})
}

func (m *model) discard(t *rapid.T) {
	m.changeDead(t, "discard", func(s *side, ref core.Ref) (core.Receipt, error) {
		return s.store.Discard(context.Background(), ref)
	})
}

func (m *model) get(t *rapid.T) { m.getOne(t, m.ref(t)) }

func (m *model) getOne(t *rapid.T, ref func(*side) core.Ref) {
	m.compare(t, "get", func(s *side) string {
		entry, err := s.store.Get(context.Background(), ref(s))
		if err != nil {
			return errorName(err)
		}
		return m.entry(s, entry)
	})
}

func (m *model) take(t *rapid.T) {
	bucket := rapid.IntRange(0, modelBuckets-1).Draw(t, "bucket")
	if len(m.inFlight[bucket]) > 0 {
		return
	}
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	m.compare(t, fmt.Sprintf("take %d from bucket %d", limit, bucket), func(s *side) string {
		batch, err := s.buckets[bucket].Take(context.Background(), limit)
		if err != nil {
			t.Fatalf("take: %v", err)
		}
		m.inFlight[bucket] = nil
		for _, msg := range batch.Messages {
			m.inFlight[bucket] = append(m.inFlight[bucket], taken{s.name(msg.ID), msg.Attempt})
		}
		return m.batch(s, batch)
	})
}

func (m *model) settle(t *rapid.T) {
	bucket := rapid.IntRange(0, modelBuckets-1).Draw(t, "bucket")
	held := m.inFlight[bucket]
	if len(held) == 0 {
		return
	}
	var outcomes []core.Outcome // with names for IDs
	for _, h := range rapid.Permutation(held).Draw(t, "order") {
		if o, ok := drawOutcome(t, h); ok {
			outcomes = append(outcomes, o)
		}
	}
	stranger := draw(t, "stranger", modelNames...)
	if !slices.ContainsFunc(held, func(h taken) bool { return h.name == stranger }) {
		outcomes = append(outcomes, delivered(stranger))
	}
	twice := rapid.Bool().Draw(t, "twice")
	m.compare(t, fmt.Sprintf("settle %+v in bucket %d", outcomes, bucket), func(s *side) string {
		mine := slices.Clone(outcomes)
		for n := range mine {
			mine[n].ID = s.id(mine[n].ID)
		}
		err := s.buckets[bucket].Settle(context.Background(), mine...)
		if err == nil && twice {
			err = s.buckets[bucket].Settle(context.Background(), mine...)
		}
		return fmt.Sprint(err)
	})
	m.inFlight[bucket] = nil
	m.tick()
}

func drawOutcome(t *rapid.T, h taken) (core.Outcome, bool) {
	switch draw(t, "outcome", "none", "delivered", "now", "hour", "unspent", "dead", "dead", "expired") {
	case "delivered":
		return delivered(h.name), true
	case "now":
		return retrying(h.name, 0, h.attempt), true
	case "hour":
		return retrying(h.name, time.Hour, h.attempt), true
	case "unspent":
		return retrying(h.name, 0, h.attempt-1), true
	case "dead":
		return deadLetter(h.name, h.attempt), true
	case "expired":
		return expired(h.name, h.attempt-1), true
	}
	return core.Outcome{}, false
}

func (m *model) list(t *rapid.T) {
	query := core.Query{Sinks: []string{m.sink}, Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
	query.Topic = draw(t, "topic", "", "", "u")
	query.States = draw(t, "states", nil, nil, []core.State{core.Scheduled}, []core.State{core.Retrying, core.Delivering},
		[]core.State{core.Dead, core.Expired}, []core.State{core.Expired})
	switch draw(t, "bounds", "none", "none", "after", "before") {
	case "after":
		query.DueAfter = m.far.Add(time.Millisecond)
	case "before":
		query.DueBefore = m.far.Add(time.Millisecond)
	}
	m.compare(t, fmt.Sprintf("list %+v", query), func(s *side) string {
		var answers []string
		for _, e := range walk(t, s.store, query) {
			answers = append(answers, m.entry(s, e))
		}
		return strings.Join(answers, "; ")
	})
}

func (m *model) stats(t *rapid.T) {
	m.compare(t, "stats", func(s *side) string {
		stats := readStats(t, s.store, m.sink)[0]
		next := m.label(stats.NextDue)
		if len(m.inFlight[0])+len(m.inFlight[1]) > 0 {
			next = "" // it is open whether what is in flight counts
		}
		return fmt.Sprintf("%d scheduled, %d due, %d retrying, %d dead, %d of %d owned, next %s",
			stats.Scheduled, stats.Due, stats.Retrying, stats.Dead, stats.Owned, stats.Buckets, next)
	})
}
