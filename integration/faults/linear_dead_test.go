//go:build unix

package main

import "testing"

// TestLinearDead: what redrive and discard may answer, and what follows from it.
func TestLinearDead(t *testing.T) {
	is := func(ms int, state string) entry {
		return with(call(looking, ms, done), func(e *entry) { e.State = state })
	}
	redriven := func(ms int) entry {
		return with(call(redriving, ms, done), func(e *entry) { e.Due, e.Least = at(ms), at(ms) })
	}
	arrivedAgain := func(ms, due int) entry { return with(arrived(ms, 1), func(e *entry) { e.Due = at(due) }) }
	asDead := func(e *entry) { e.State = "dead" }
	asDiscarded := func(e *entry) { e.State = "discarded" }
	lost := func(e *entry) { e.Outcome, e.Code = unknown, "outcome_unknown" }
	again := func(ms int, o outcome) entry {
		return with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome, e.Content, e.Due = at(ms), at(ms+5), o, "d", at(ms+1000) })
	}
	death := entry{Kind: dying, Name: "m", Call: at(5000), Return: at(5000)}
	generated := with(accepted(), func(e *entry) { e.Generated = true })
	for _, test := range []struct {
		name    string
		entries []entry
		ok      bool
	}{
		{"redriven and delivered", []entry{accepted(), is(1100, "dead"), redriven(1200), arrivedAgain(1210, 1200), is(1300, "delivered")}, true},
		{"redriven twice", []entry{accepted(), is(1100, "dead"), redriven(1200), redriven(1300), death}, true},
		{"redriven before it is due", []entry{accepted(), redriven(100)}, false},
		{"redriven after it was delivered", []entry{accepted(), arrived(1001, 1), is(1100, "delivered"), redriven(1200)}, false},
		{"redriven, and the attempts go on", []entry{accepted(), is(1100, "dead"), with(redriven(1200), func(e *entry) { e.Attempt = 1 })}, false},
		{"redriven, and may have been sent", []entry{accepted(), is(1100, "dead"), with(redriven(1200), func(e *entry) { e.Sent = true })}, false},
		{"too late, though it is dead", []entry{accepted(), is(1100, "dead"), with(call(redriving, 1200, tooLate), asDead)}, false},
		{"not found, though it is dead", []entry{accepted(), is(1100, "dead"), call(redriving, 1200, notFound)}, false},
		{"too late, as it waits", []entry{accepted(), with(call(redriving, 100, tooLate), func(e *entry) { e.State = "scheduled" })}, true},
		{"redriven, and found dead with another due time", []entry{accepted(), is(1100, "dead"), redriven(1200),
			with(is(1300, "scheduled"), func(e *entry) { e.Due = at(1000) })}, false},
		{"discarded and remembered", []entry{accepted(), is(1100, "dead"), call(discarding, 1200, done), is(1300, "discarded")}, true},
		{"discarded, and still dead", []entry{accepted(), is(1100, "dead"), call(discarding, 1200, done), is(1300, "dead")}, false},
		{"discarded and a dead letter", []entry{accepted(), call(discarding, 1200, done), death}, false},
		{"discarded twice", []entry{accepted(), call(discarding, 1200, done), call(discarding, 1300, done)}, false},
		{"discarded and redriven", []entry{accepted(), call(discarding, 1200, done), redriven(1300)}, false},
		{"discarded, and too late to redrive", []entry{accepted(), call(discarding, 1200, done), with(call(redriving, 1300, tooLate), asDiscarded)}, true},
		{"discarded, and arrives", []entry{accepted(), call(discarding, 1200, done), arrived(1300, 1)}, false},
		{"discarded before it is due", []entry{accepted(), call(discarding, 100, done)}, false},
		{"discarded, and accepted again with other content", []entry{accepted(), call(discarding, 1200, done), again(1300, duplicate)}, true},
		{"discarded, and accepted again", []entry{accepted(), call(discarding, 1200, done), again(1300, done)}, false},
		{"discarded, and a conflict", []entry{accepted(), call(discarding, 1200, done), again(1300, conflict)}, false},
		{"cancelled, and a conflict", []entry{accepted(), call(cancelling, 200, done), again(300, conflict)}, true},
		{"cancelled, and a duplicate", []entry{accepted(), call(cancelling, 200, done), again(300, duplicate)}, false},
		{"discarded under a generated id", []entry{generated, call(discarding, 1200, done), call(looking, 1300, notFound), call(redriving, 1400, notFound)}, true},
		{"discarded under a generated id, and remembered", []entry{generated, call(discarding, 1200, done), is(1300, "discarded")}, false},
		{"not found, and not settled", []entry{generated, call(looking, 100, notFound)}, false},
		{"redriven perhaps, and delivered", []entry{accepted(), is(1100, "dead"), with(redriven(1200), lost), arrivedAgain(1210, 1200), is(1300, "delivered")}, true},
		{"redriven later than it was answered", []entry{accepted(), is(1100, "dead"), with(redriven(1200), lost), is(1300, "dead"), arrivedAgain(1400, 1400), is(1500, "delivered")}, false},
		{"discarded perhaps, and gone", []entry{generated, is(1100, "dead"), with(call(discarding, 1200, done), lost), call(looking, 1300, notFound)}, true},
		{"discarded later than it was answered", []entry{generated, is(1100, "dead"), with(call(discarding, 1200, done), lost), is(1300, "dead"), call(looking, 1400, notFound)}, false},
		{"discarded later than a redrive was answered", []entry{accepted(), is(1100, "dead"), with(call(discarding, 1200, done), lost), redriven(1300), is(1400, "discarded")}, false},
		{"a dead letter that was delivered", []entry{accepted(), arrived(1001, 1), is(1100, "delivered"), death}, false},
	} {
		w := testLaws()
		w.voidLate = true
		if got := w.linear(ledgerOf(test.entries...)); (len(got) == 0) != test.ok {
			t.Errorf("%s: found %v", test.name, got)
		}
	}
}
