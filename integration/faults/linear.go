//go:build unix

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// phase is where a message stands, as the contract knows it.
type phase uint8

const (
	absent phase = iota
	waiting
	inFlight
	delivered
	cancelled
	dead
	forgotten // settled, and longer ago than its id is remembered
	gone      // discarded
)

// standing is the state of the model: one message.
type standing struct {
	phase   phase
	content string
	due     int64 // ms; if loose, not before that
	loose   bool
	handed  bool // was in flight: some owner may send it, also later
	arrived bool
	sure    bool // somebody was told that it is stored
	// generated: the bridge made the id, which is not remembered.
	generated bool
}

// over tells whether at most the id is known still.
func (s standing) over() bool { return s.phase == delivered || s.phase == cancelled || s.phase == gone }

// step is one call or arrival as the model takes it.
type step struct {
	entry
	until int64 // ms until which it may have taken effect
}

// The search of one run is bounded, by a time and more for each message. It is
// seldom felt: a message has a handful of calls.
const (
	linearBudget = 60 * time.Second
	linearEach   = time.Millisecond
)

// linear is L8: for each message there is an order of what happened to it that
// the contract allows and that agrees with the times of all calls. What has no
// known outcome may have happened at any time since, or never.
func (w laws) linear(l *ledger) []finding {
	var all []finding
	model := w.model()
	accounts := l.accounts()
	budget := linearBudget + time.Duration(len(accounts))*linearEach
	deadline := time.Now().Add(budget)
	for _, a := range accounts {
		left := time.Until(deadline)
		if left <= 0 {
			return append(all, breach("L8", "not decided within %s", budget))
		}
		switch porcupine.CheckOperationsTimeout(model, w.history(a), left) {
		case porcupine.Illegal:
			all = append(all, breach("L8", "%s: no order of its calls explains the answers", a.name))
		case porcupine.Unknown:
			all = append(all, breach("L8", "%s: not decided in time", a.name))
		}
	}
	return all
}

// over tells whether a call of unknown outcome can't have an effect any more.
func (w laws) over(e entry) bool { return w.voidLate && e.Code == "outcome_unknown" }

// lateEffect is the part of L8 that the order alone does not show: a delay counts
// from when the call takes effect, so that what arrives tells when that was.
func (w laws) lateEffect(a *account) []finding {
	var all []finding
	for _, got := range a.arrivals {
		fits := !w.voidLate
		for _, e := range a.calls {
			if e.Kind != accepting && e.Kind != rescheduling && e.Kind != redriving {
				continue
			}
			open := e.Outcome == unknown && !w.over(e)
			last := e.Return.Add(e.Least.Sub(e.Call) + clockSlack)
			fits = fits || open || e.Due.Equal(got.Due) || e.Outcome == unknown && !got.Due.After(last)
		}
		if !fits {
			all = append(all, breach("L8", "%s was due at %s, and no call can have made it so before it was answered", a.name, got.Due.Format(time.StampMilli)))
		}
	}
	return all
}

// forLong is longer than any run.
const forLong = 1000 * time.Hour

func (w laws) history(a *account) []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(e entry) {
		_, ahead := w.ahead(time.Time{}, e.Return)
		op := porcupine.Operation{Input: step{e, e.Return.Add(ahead + clockSlack).UnixMilli()}, Call: e.Call.UnixNano(), Return: e.Return.UnixNano()}
		if e.Outcome == unknown && !w.over(e) { // it may happen at any later time, by the clock of then
			ahead, _ := w.ahead(e.Call, e.Call.Add(forLong))
			e.Least = e.Least.Add(ahead)
			op.Input, op.Return = step{e, math.MaxInt64}, math.MaxInt64
		}
		ops = append(ops, op)
	}
	for _, e := range a.calls {
		add(e)
	}
	for _, e := range append(a.arrivals, a.deaths...) {
		add(e)
	}
	return ops
}

// model is the contract of one message. Between any two calls it may have been
// taken, put back, delivered or given up: see moves.
func (w laws) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{standing{}} },
		Step: func(state, input, _ any) []any {
			in := input.(step)
			var after []any
			for _, s := range w.reachable(state.(standing), in.until) {
				for _, next := range s.after(in) {
					after = append(after, next)
				}
			}
			return after
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// reachable are the standings that s can come to by itself until then.
func (w laws) reachable(s standing, until int64) []standing {
	all := []standing{s}
	seen := map[standing]bool{s: true}
	for n := 0; n < len(all); n++ {
		for _, next := range w.moves(all[n], until) {
			if !seen[next] {
				seen[next] = true
				all = append(all, next)
			}
		}
	}
	return all
}

func (w laws) moves(s standing, until int64) []standing {
	to := func(p phase) standing { next := s; next.phase = p; return next }
	moves := w.ownMoves(s, until, to)
	if !w.rolledBack {
		return moves
	}
	if s.phase == inFlight || s.phase == delivered { // what was not waited for is forgotten
		moves = append(moves, standing{phase: waiting, content: s.content, due: s.due, loose: s.loose, sure: s.sure, generated: s.generated})
	}
	if s.phase != absent && !s.sure {
		moves = append(moves, standing{})
	}
	return moves
}

func (w laws) ownMoves(s standing, until int64, to func(phase) standing) []standing {
	switch {
	case s.phase == waiting && s.due <= until:
		next := to(inFlight)
		next.handed = true
		return []standing{next}
	case s.phase == inFlight && s.arrived:
		return []standing{to(waiting), to(delivered), to(dead)}
	case s.phase == inFlight:
		return []standing{to(waiting), to(dead)}
	case s.phase == delivered && w.rolledBack:
		return []standing{to(waiting)}
	case w.forgets && s.over():
		return []standing{to(forgotten)}
	}
	return nil
}

// after are the standings to which a call that was answered so can lead from s;
// none if it can't have been answered so.
func (s standing) after(in step) []standing {
	if in.Outcome == refused {
		return []standing{s}
	}
	switch in.Kind {
	case accepting:
		return s.afterAccept(in)
	case cancelling:
		return s.afterCancel(in)
	case rescheduling:
		return s.afterReschedule(in)
	case looking:
		return s.afterGet(in)
	case redriving:
		return s.afterRedrive(in)
	case discarding:
		return s.afterDiscard(in)
	case dying:
		return keep(s, s.phase == dead)
	case arriving:
		if s.handed {
			s.arrived = true
			return []standing{s}
		}
	}
	return nil
}

// unknown tells whether nothing of the message is there.
func (s standing) unknown() bool {
	return s.phase == absent || s.phase == forgotten || s.generated && s.over()
}

func keep(s standing, allowed bool) []standing {
	if allowed {
		return []standing{s}
	}
	return nil
}

func (s standing) afterAccept(in step) []standing {
	same := (s.content == in.Content || s.over()) && s.phase != cancelled // which is a conflict by itself
	fresh := standing{phase: waiting, content: in.Content, due: in.Due.UnixMilli(), sure: true, generated: in.Generated}
	switch in.Outcome {
	case done:
		return keep(fresh, s.phase == absent)
	case duplicate:
		s.sure = true
		return keep(s, s.phase != absent && same)
	case conflict:
		return keep(s, s.phase != absent && !same)
	}
	if s.phase != absent {
		return []standing{s}
	}
	fresh.due, fresh.loose, fresh.sure = in.Least.UnixMilli(), true, false
	return []standing{s, fresh}
}

func (s standing) afterCancel(in step) []standing {
	withdrawn := s
	withdrawn.phase = cancelled
	switch in.Outcome {
	case done:
		withdrawn.handed = in.Sent
		return keep(withdrawn, s.phase == waiting && (in.Sent && s.handed || !in.Sent && !s.arrived))
	case tooLate:
		return keep(s, s.phase != waiting && s.fits(in.State))
	case notFound:
		return keep(s, s.unknown())
	}
	if s.phase == waiting {
		return []standing{s, withdrawn}
	}
	return []standing{s}
}

func (s standing) afterReschedule(in step) []standing {
	moved := s
	moved.due, moved.loose = in.Due.UnixMilli(), false
	switch in.Outcome {
	case done:
		return keep(moved, s.phase == waiting)
	case tooLate:
		return keep(s, s.phase != waiting && s.fits(in.State))
	case notFound:
		return keep(s, s.unknown())
	}
	if s.phase == waiting {
		moved.due, moved.loose = in.Least.UnixMilli(), true
		return []standing{s, moved}
	}
	return []standing{s}
}

// afterRedrive: a dead letter waits again, with no attempt made.
func (s standing) afterRedrive(in step) []standing {
	revived := s
	revived.phase, revived.due, revived.loose, revived.handed = waiting, in.Due.UnixMilli(), false, false
	switch in.Outcome {
	case done:
		return keep(revived, s.phase == dead && in.Attempt == 0 && !in.Sent)
	case tooLate, notFound:
		return s.notDead(in)
	}
	if s.phase == dead {
		revived.due, revived.loose = in.Least.UnixMilli(), true
		return []standing{s, revived}
	}
	return []standing{s}
}

func (s standing) afterDiscard(in step) []standing {
	removed := s
	removed.phase, removed.handed = gone, false
	switch in.Outcome {
	case done:
		return keep(removed, s.phase == dead)
	case tooLate, notFound:
		return s.notDead(in)
	}
	if s.phase == dead {
		return []standing{s, removed}
	}
	return []standing{s}
}

// notDead is s if it is no dead letter, as a call that is for those was told.
func (s standing) notDead(in step) []standing {
	if in.Outcome == notFound {
		return keep(s, s.unknown())
	}
	return keep(s, s.phase != dead && s.fits(in.State))
}

func (s standing) afterGet(in step) []standing {
	switch in.Outcome {
	case done:
		told := s.phase != waiting && s.phase != inFlight || s.loose || in.Due.UnixMilli() == s.due
		return keep(s, s.fits(in.State) && told)
	case notFound:
		return keep(s, s.unknown())
	}
	return []standing{s}
}

// fits tells whether a state that was told is that of s.
func (s standing) fits(state string) bool {
	if s.unknown() {
		return false
	}
	switch state {
	case "scheduled":
		return s.phase == waiting
	case "retrying":
		return s.phase == waiting && s.handed
	case "delivering":
		return s.phase == inFlight
	case "delivered":
		return s.phase == delivered
	case "cancelled":
		return s.phase == cancelled
	case "dead", "expired":
		return s.phase == dead
	case "discarded":
		return s.phase == gone
	}
	return false
}
