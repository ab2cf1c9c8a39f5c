//go:build unix

package main

import (
	"slices"
	"testing"
	"time"
)

// The tests here show that each law can fail: ledgers of runs in which one thing
// went wrong.

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a time in milliseconds of the run.
func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func testLaws() laws {
	return laws{lease: lease, healed: at(10_000), drained: at(10_500), drainIn: time.Second, perFault: 10}
}

// accepted is a message that was accepted at 0 and is due at 1000.
func accepted() entry {
	return entry{Kind: accepting, Name: "m", ID: "m", Call: at(0), Return: at(5), Outcome: done, Content: "c", Due: at(1000), Least: at(1000)}
}

// arrived is its delivery at ms.
func arrived(ms, attempt int) entry {
	return entry{Kind: arriving, Name: "m", ID: "m", Bridge: "a1", Call: at(ms), Return: at(ms + 10), Content: "c", Due: at(1000), Attempt: attempt}
}

func call(k kind, ms int, o outcome) entry {
	return entry{Kind: k, Name: "m", Call: at(ms), Return: at(ms + 5), Outcome: o}
}

func with(e entry, change func(*entry)) entry { change(&e); return e }

func ledgerOf(entries ...entry) *ledger { return &ledger{entries: entries} }

// lawsOf is the laws that were broken, each once.
func lawsOf(findings []finding) []string {
	var names []string
	for _, f := range findings {
		names = append(names, f.law)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestChecks(t *testing.T) {
	clean := with(call(cancelling, 500, done), func(e *entry) {})
	dueThen := func(e *entry) { e.Due = at(1200) }
	redriven := with(call(redriving, 1200, done), func(e *entry) { e.Due, e.Least = at(1200), at(1200) })
	inFault := []fault{{What: "kill", Bridges: []string{"a1"}, From: at(1300), To: at(1400)}}
	for _, test := range []struct {
		name    string
		entries []entry
		faults  []fault
		change  func(*laws)
		want    []string
	}{
		{name: "good", entries: []entry{accepted(), arrived(1001, 1)}},
		{name: "cancelled", entries: []entry{accepted(), clean}},
		{name: "never accepted", entries: []entry{with(accepted(), func(e *entry) { e.Outcome = unknown })}},
		{name: "lost", entries: []entry{accepted()}, want: []string{"L1"}},
		{name: "lost, and the store says delivered", entries: []entry{accepted(), {Kind: parking, Name: "m", State: "delivered"}}, want: []string{"L1"}},
		{name: "accepted as a duplicate and lost", entries: []entry{with(accepted(), func(e *entry) { e.Outcome = duplicate })}, want: []string{"L1"}},
		{name: "a cancel that was refused is none", entries: []entry{accepted(), call(cancelling, 500, refused)}, want: []string{"L1"}},
		{name: "nobody sent it", entries: []entry{arrived(1001, 1)}, want: []string{"L2"}},
		{name: "refused and delivered", entries: []entry{with(accepted(), func(e *entry) { e.Outcome = refused }), arrived(1001, 1)}, want: []string{"L2"}},
		{name: "other content", entries: []entry{accepted(), with(arrived(1001, 1), func(e *entry) { e.Content = "d" })}, want: []string{"L3"}},
		{name: "other id", entries: []entry{accepted(), with(arrived(1001, 1), func(e *entry) { e.ID = "n" })}, want: []string{"L3"}},
		{name: "content of a conflict", entries: []entry{accepted(),
			with(accepted(), func(e *entry) { e.Outcome, e.Content = conflict, "d" }), with(arrived(1001, 1), func(e *entry) { e.Content = "d" })}, want: []string{"L3"}},
		{name: "before it is due", entries: []entry{accepted(), arrived(990, 1)}, want: []string{"L4"}},
		{name: "early by Redis's clock only", entries: []entry{accepted(), arrived(1001, 1)}, change: func(w *laws) { w.jumps = []jump{{ahead: -20 * time.Millisecond}} }, want: []string{"L4"}},
		{name: "due before anybody asked", entries: []entry{accepted(), with(arrived(900, 1), func(e *entry) { e.Due = at(900) })}, want: []string{"L4"}},
		{name: "cancelled and delivered", entries: []entry{accepted(), clean, arrived(1001, 1)}, want: []string{"L5"}},
		{name: "cancelled after an attempt", entries: []entry{accepted(), with(clean, func(e *entry) { e.Sent = true }), arrived(1001, 1)}},
		{name: "discarded and delivered", entries: []entry{accepted(), call(discarding, 1100, done), arrived(1200, 1)}, want: []string{"L5"}},
		{name: "discarded in vain, and delivered", entries: []entry{accepted(), call(discarding, 1100, tooLate), arrived(1200, 1)}},
		{name: "discarded", entries: []entry{accepted(), call(discarding, 1100, done)}},
		{name: "discarded perhaps", entries: []entry{accepted(), call(discarding, 1100, unknown)}},
		{name: "a discard that was refused is none", entries: []entry{accepted(), call(discarding, 1100, refused)}, want: []string{"L1"}},
		{name: "redriven and lost", entries: []entry{accepted(), redriven}, want: []string{"L1"}},
		{name: "redriven and delivered", entries: []entry{accepted(), redriven, with(arrived(1210, 1), dueThen)}, change: func(w *laws) { w.voidLate = true }},
		{name: "redriven later than it was answered", entries: []entry{accepted(), with(redriven, func(e *entry) { e.Outcome, e.Code = unknown, "outcome_unknown" }),
			with(arrived(1310, 1), func(e *entry) { e.Due = at(1300) })}, change: func(w *laws) { w.voidLate = true }, want: []string{"L8"}},
		{name: "twice without a fault", entries: []entry{accepted(), arrived(1001, 1), arrived(1200, 2)}, want: []string{"L6"}},
		{name: "published twice, and arrives twice", entries: []entry{accepted(), call(accepting, 500, again), arrived(1001, 1), arrived(1200, 1)}},
		{name: "published twice, and arrives three times", entries: []entry{accepted(), call(accepting, 500, again), arrived(1001, 1), arrived(1200, 1), arrived(1300, 2)}, want: []string{"L6"}},
		{name: "published twice, and is lost", entries: []entry{accepted(), call(accepting, 500, again)}, want: []string{"L1"}},
		{name: "twice after a fault", entries: []entry{accepted(), arrived(1001, 1), arrived(3500, 2)}, faults: inFault},
		{name: "twice after another's fault", entries: []entry{accepted(), arrived(1001, 1), arrived(3500, 2)},
			faults: []fault{{What: "kill", Bridges: []string{"b1"}, From: at(1300), To: at(1400)}}, want: []string{"L6"}},
		{name: "sent late by one that was paused", entries: []entry{accepted(), with(arrived(1001, 2), func(e *entry) { e.Bridge = "b1" }), arrived(1390, 1)},
			faults: []fault{{What: "pause", Bridges: []string{"a1"}, From: at(300), To: at(1400)}}},
		{name: "twice as the first attempt", entries: []entry{accepted(), arrived(1001, 1), arrived(3500, 1)}, faults: inFault, want: []string{"L6"}},
		{name: "more than was in flight", entries: []entry{accepted(), arrived(1001, 1), arrived(1500, 2), arrived(1600, 3)},
			faults: inFault, change: func(w *laws) { w.perFault = 1 }, want: []string{"L6"}},
		{name: "stuck", entries: []entry{accepted(), {Kind: parking, Name: "m", State: "scheduled"}}, want: []string{"L7"}},
		{name: "the store did not tell", entries: []entry{accepted(), {Kind: parking, Name: "m", State: unasked}}, want: []string{"L7"}},
		{name: "late", entries: []entry{accepted(), arrived(1001, 1)}, change: func(w *laws) { w.drained = at(12_000) }, want: []string{"L7"}},
		{name: "never drained", entries: []entry{accepted(), arrived(1001, 1)}, change: func(w *laws) { w.drained = time.Time{} }, want: []string{"L7"}},
	} {
		w := testLaws()
		if test.change != nil {
			test.change(&w)
		}
		l := ledgerOf(test.entries...)
		l.faults = test.faults
		if got := lawsOf(w.check(l)); !slices.Equal(got, test.want) {
			t.Errorf("%s: broken are %q, want %q: %v", test.name, got, test.want, w.check(l))
		}
	}
}

// TestLinearForgets: an id that was settled may be unknown again where the row says
// so, and one that waits may not.
func TestLinearForgets(t *testing.T) {
	settled := []entry{accepted(), arrived(1001, 1), call(cancelling, 2500, notFound)}
	for _, test := range []struct {
		entries []entry
		forgets bool
		ok      bool
	}{
		{settled, true, true},
		{settled, false, false},
		{[]entry{accepted(), call(cancelling, 100, done), call(looking, 2500, notFound)}, true, true},
		{[]entry{accepted(), call(cancelling, 500, notFound)}, true, false},
	} {
		w := testLaws()
		w.forgets = test.forgets
		if found := w.linear(ledgerOf(test.entries...)); (len(found) == 0) != test.ok {
			t.Errorf("%v: found %v, want none: %v", test.entries, found, test.ok)
		}
	}
}

func TestLinear(t *testing.T) {
	rescheduled := with(call(rescheduling, 100, done), func(e *entry) { e.Due, e.Least = at(3000), at(3000) })
	is := func(ms int, state string) entry {
		return with(call(looking, ms, done), func(e *entry) { e.State, e.Due = state, at(1000) })
	}
	sent := func(e *entry) { e.Sent = true }
	for _, test := range []struct {
		name    string
		entries []entry
		rolled  bool
		ok      bool
	}{
		{"course of life", []entry{accepted(), is(50, "scheduled"), arrived(1001, 1), is(1200, "delivered")}, false, true},
		{"found before it was accepted", []entry{is(-100, "scheduled"), accepted()}, false, false},
		{"not found after", []entry{accepted(), call(looking, 100, notFound)}, false, false},
		{"accepted twice", []entry{accepted(), with(accepted(), func(e *entry) { e.Call, e.Return = at(20), at(25) })}, false, false},
		{"repeated", []entry{accepted(), with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome = at(20), at(25), duplicate })}, false, true},
		{"a duplicate of nothing", []entry{with(accepted(), func(e *entry) { e.Outcome = duplicate })}, false, false},
		{"a duplicate with other content", []entry{accepted(), with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome, e.Content = at(20), at(25), duplicate, "d" })}, false, false},
		{"a conflict with the same content", []entry{accepted(), with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome = at(20), at(25), conflict })}, false, false},
		{"unknown, and it was there", []entry{with(accepted(), func(e *entry) { e.Outcome = unknown }), is(500, "scheduled")}, false, true},
		{"unknown, and it was not", []entry{with(accepted(), func(e *entry) { e.Outcome = unknown }), call(looking, 500, notFound)}, false, true},
		{"refused, and it was there", []entry{with(accepted(), func(e *entry) { e.Outcome = refused }), is(500, "scheduled")}, false, false},
		{"delivering before it is due", []entry{accepted(), is(500, "delivering")}, false, false},
		{"delivered without an arrival", []entry{accepted(), is(1200, "delivered")}, false, false},
		{"cancelled twice", []entry{accepted(), call(cancelling, 100, done), call(cancelling, 200, done)}, false, false},
		{"cancelled after it was delivered", []entry{accepted(), arrived(1001, 1), is(1100, "delivered"), with(call(cancelling, 1200, done), sent)}, false, false},
		{"cleanly cancelled after it arrived", []entry{accepted(), arrived(1001, 1), call(cancelling, 1200, done)}, false, false},
		{"cancelled after an attempt", []entry{accepted(), arrived(1001, 1), with(call(cancelling, 1200, done), sent)}, false, true},
		{"too late, though it waits", []entry{accepted(), with(call(cancelling, 100, tooLate), func(e *entry) { e.State = "delivering" })}, false, false},
		{"rescheduled", []entry{accepted(), rescheduled, with(arrived(3001, 1), func(e *entry) { e.Due = at(3000) })}, false, true},
		{"rescheduled in vain", []entry{accepted(), rescheduled, arrived(1001, 1)}, false, false},
		{"rescheduled, and the old time is told", []entry{accepted(), rescheduled, is(200, "scheduled")}, false, false},
		{"waits again after it was delivered", []entry{accepted(), arrived(1001, 1), is(1100, "delivered"), is(1200, "retrying")}, false, false},
		{"the same after Redis rolled back", []entry{accepted(), arrived(1001, 1), is(1100, "delivered"), is(1200, "retrying")}, true, true},
	} {
		w := testLaws()
		w.rolledBack = test.rolled
		if got := w.linear(ledgerOf(test.entries...)); (len(got) == 0) != test.ok {
			t.Errorf("%s: found %v", test.name, got)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, test := range []struct {
		status int
		answer answer
		want   outcome
	}{
		{201, answer{}, done}, {200, answer{Duplicate: true}, duplicate}, {200, answer{}, done},
		{409, answer{Code: "conflict", Stored: false}, conflict}, {409, answer{Code: "too_late"}, tooLate}, {404, answer{Code: "not_found"}, notFound},
		{400, answer{Code: "invalid", Stored: false}, refused}, {503, answer{Code: "store_full", Stored: false}, refused},
		{503, answer{Code: "outcome_unknown", Stored: "unknown"}, unknown}, {503, answer{Code: "outcome_unknown"}, unknown},
		{500, answer{Code: "internal", Stored: "unknown"}, unknown}, {500, answer{Code: "internal"}, unknown},
		{503, answer{Code: "unavailable", Changed: false}, refused},
	} {
		if got := outcomeOf(test.status, test.answer, nil); got != test.want {
			t.Errorf("%d %+v: %s, want %s", test.status, test.answer, got, test.want)
		}
	}
	if got := outcomeOf(0, answer{}, errNoBridge); got != refused {
		t.Errorf("no bridge: %s", got)
	}
}

// TestPlan: a seed is all that a run's load depends on.
func TestPlan(t *testing.T) {
	r := &run{row: &row{number: 1}, seed: 7}
	one, two := r.plan(5), r.plan(5)
	if one.message.content() != two.message.content() || one.delay != two.delay || len(one.steps) != len(two.steps) {
		t.Errorf("one seed, two plans: %+v and %+v", one, two)
	}
	if other := r.plan(6); other.message.content() == one.message.content() {
		t.Errorf("two messages have one content")
	}
}
