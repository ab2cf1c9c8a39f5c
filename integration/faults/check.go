//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// finding is one breach of a law.
type finding struct {
	law   string // L1 to L10
	text  string
	spent bool // L1: a dead letter for want of attempts, which a machine that stands still uses up
}

func breach(law, format string, args ...any) finding {
	return finding{law: law, text: fmt.Sprintf(format, args...)}
}

// laws are what holds for one run.
type laws struct {
	lease   time.Duration
	healed  time.Time     // when the last fault was over
	drained time.Time     // when nothing more was to be expected; zero: it never came
	drainIn time.Duration // L7
	// perFault bounds how many messages one fault may repeat.
	perFault int
	// rolledBack: Redis may have lost what it said it had done, other than what was
	// waited for. So the number of an attempt may come twice.
	rolledBack bool
	// voidLate: a call that a bridge has answered as unknown has no effect after that.
	voidLate bool
	// forgets: ids are remembered for so short a time that calls may come after it.
	forgets bool
	lossy   []window // of which Redis may have lost everything
	jumps   []jump   // of its clock
}

const (
	clockSlack = 5 * time.Millisecond
	// beforeFault is how long before a fault a delivery may lie that was not settled
	// when it struck. On a busy machine that is more than the milliseconds it takes.
	beforeFault = 1500 * time.Millisecond
	afterFault  = 4 * time.Second
	maxFindings = 20
)

// check holds a ledger against L1 to L7.
func (w laws) check(l *ledger) []finding {
	var all []finding
	repeats := 0
	for _, a := range l.accounts() {
		all = append(all, w.lost(a)...)
		all = append(all, w.died(a)...)
		all = append(all, w.phantom(a)...)
		all = append(all, w.corrupt(a)...)
		all = append(all, w.early(a)...)
		all = append(all, w.lateEffect(a)...)
		all = append(all, w.cancelled(a, l.faults)...)
		all = append(all, w.repeated(a, l.faults)...)
		repeats += max(0, len(a.arrivals)-a.published())
	}
	if limit := w.perFault * len(l.faults); repeats > limit {
		all = append(all, breach("L6", "%d repeats, and %d faults explain %d at most", repeats, len(l.faults), limit))
	}
	return append(all, w.late(l)...)
}

// lost is L1: what was accepted arrives, or is a dead letter, or cancelled, or is
// still parked.
func (w laws) lost(a *account) []finding {
	switch {
	case !a.accepted(), a.settled(), a.maybeWithdrawn(), a.lossAllowed(w.lossy):
		return nil
	case a.parked == "":
		return []finding{breach("L1", "%s was accepted, has not arrived and is not in the store", a.name)}
	case a.parked == "delivered":
		return []finding{breach("L1", "%s was accepted and has not arrived, and the store says that it is delivered", a.name)}
	}
	return nil
}

// late is L7: when the faults are over, all that is due goes out in time.
func (w laws) late(l *ledger) []finding {
	var all []finding
	for _, a := range l.accounts() {
		if a.accepted() && !a.settled() && a.parked != "" && a.parked != "delivered" && a.parked != "cancelled" {
			all = append(all, breach("L7", "%s is still %s, %s after it was due", a.name, a.parked, w.drainIn))
		}
	}
	if len(all) == 0 && (w.drained.IsZero() || w.drained.Sub(w.healed) > w.drainIn) {
		all = append(all, breach("L7", "not drained within %s", w.drainIn))
	}
	return all
}

// phantom is L2: what arrives was sent, and was not said to be refused.
func (w laws) phantom(a *account) []finding {
	if len(a.arrivals) == 0 {
		return nil
	}
	switch {
	case !slices.ContainsFunc(a.calls, func(e entry) bool { return e.Kind == accepting }):
		return []finding{breach("L2", "%s arrived, and nobody sent it", a.name)}
	case !a.any(accepting, done, duplicate, unknown):
		return []finding{breach("L2", "%s arrived, and its producer was told that it is not stored", a.name)}
	}
	return nil
}

// corrupt is L3: what arrives is what was sent, under the id that was told.
func (w laws) corrupt(a *account) []finding {
	var all []finding
	for _, got := range a.arrivals {
		fits, sent := false, false
		for _, e := range a.calls {
			if e.Kind != accepting {
				continue
			}
			sent = true
			// A refused conflict is no content of this message.
			fits = fits || e.Outcome != conflict && e.Content == got.Content && (e.ID == "" || e.ID == got.ID)
		}
		if sent && !fits {
			all = append(all, breach("L3", "%s arrived as id %s with content %.12s, which nobody sent", a.name, got.ID, got.Content))
		}
	}
	return all
}

// early is L4: by Redis's clock nothing arrives before it is due, and nothing is
// due before the least time that somebody asked for.
func (w laws) early(a *account) []finding {
	var all []finding
	var least time.Time
	for _, e := range a.calls {
		if (e.Kind == accepting || e.Kind == rescheduling) && e.Outcome != refused && e.Outcome != conflict &&
			!e.Least.IsZero() {
			ahead, _ := w.ahead(e.Call, e.Return)
			if by := e.Least.Add(ahead); least.IsZero() || by.Before(least) {
				least = by
			}
		}
	}
	for _, got := range a.arrivals {
		_, ahead := w.ahead(got.Call.Add(-beforeFault), got.Call) // since it was taken
		at := got.Call.Add(ahead + clockSlack)
		switch {
		case at.Before(got.Due):
			all = append(all, breach("L4", "%s arrived %s before it was due", a.name, got.Due.Sub(at)))
		case !least.IsZero() && at.Before(least):
			all = append(all, breach("L4", "%s arrived %s before anybody asked for", a.name, least.Sub(at)))
		}
	}
	return all
}

// cancelled is L5: a clean cancel is kept, and so is a discard.
func (w laws) cancelled(a *account, faults []fault) []finding {
	for _, e := range a.calls {
		for _, got := range a.arrivals {
			if e.Kind == discarding && e.Outcome == done && got.Call.After(e.Return) {
				return []finding{breach("L5", "%s arrived %s after it was discarded", a.name, got.Call.Sub(e.Return))}
			}
		}
	}
	if len(a.arrivals) > 0 && a.cleanlyCancelled() && !a.undoneAllowed(w.lossy) && !w.forgotten(a, faults) {
		return []finding{breach("L5", "%s arrived, though a cancel said that it never will", a.name)}
	}
	return nil
}

// repeated is L6: what arrives again has a fault as its reason, and says that it
// is not the first attempt.
func (w laws) repeated(a *account, faults []fault) []finding {
	if len(a.arrivals) < 2 {
		return nil
	}
	var all []finding
	first, published := 0, a.published()
	arrivals := slices.SortedFunc(slices.Values(a.arrivals), func(x, y entry) int { return x.Call.Compare(y.Call) })
	for n, got := range arrivals {
		if got.Attempt == 1 {
			first++
		}
		if n > 0 && !explained(arrivals[n-1], faults) && !sentLate(got, faults) {
			all = append(all, breach("L6", "%s arrived again %s after bridge %s had delivered it, and there was no fault",
				a.name, got.Call.Sub(arrivals[n-1].Call), arrivals[n-1].Bridge))
		}
	}
	if len(all) < published {
		all = nil // each can have arrived once
	}
	if first > published && !w.rolledBack {
		all = append(all, breach("L6", "%s arrived %d times as the first attempt", a.name, first))
	}
	return all
}

// explained tells whether a fault can have kept a delivery from being settled. A
// send that was held up was in flight from before it was printed until it was read.
func explained(delivery entry, faults []fault) bool {
	return struck(delivery, faults, beforeFault, afterFault)
}

// sentLate tells whether the repeat itself comes from a process that a fault held
// up in the midst of a send, while another sent the message.
func sentLate(repeat entry, faults []fault) bool { return struck(repeat, faults, 0, time.Second) }

// struck tells whether a delivery was under way during a fault of its bridge, or so
// shortly before or after it.
func struck(delivery entry, faults []fault, before, after time.Duration) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return f.strikes(delivery.Bridge) && delivery.Return.After(f.From.Add(-before)) && delivery.Call.Before(f.To.Add(after))
	})
}

// counts is what a run came to.
type counts struct {
	sent, accepted, arrived, repeats, dead, cancelled, retried, unknown, refused int
}

func count(l *ledger) counts {
	var c counts
	for _, a := range l.accounts() {
		c.sent++
		if a.accepted() {
			c.accepted++
		}
		if len(a.arrivals) > 0 {
			c.arrived++
			c.repeats += len(a.arrivals) - 1
		}
		if len(a.deaths) > 0 {
			c.dead++
		}
		if a.any(cancelling, done) {
			c.cancelled++
		}
	}
	c.retried = l.count(func(e entry) bool { return e.Kind == arriving && e.Attempt > 1 })
	c.unknown = l.count(func(e entry) bool { return e.Outcome == unknown })
	c.refused = l.count(func(e entry) bool { return e.Outcome == refused })
	return c
}
