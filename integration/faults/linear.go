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
	inHand
	delivered
	cancelled
	dead
	forgotten // settled, and longer ago than its id is remembered
)

// standing is the state of the model: one message.
type standing struct {
	phase   phase
	content string
	due     int64 // ms; if loose, not before that
	loose   bool
	handed  bool // was in hand: some owner may send it, also later
	arrived bool
	sure    bool // somebody was told that it is stored
}

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
			if e.Kind != accepting && e.Kind != rescheduling {
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
	for _, e := range a.arrivals {
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
	if s.phase == inHand || s.phase == delivered { // what was not waited for is forgotten
		moves = append(moves, standing{phase: waiting, content: s.content, due: s.due, loose: s.loose, sure: s.sure})
	}
	if s.phase != absent && !s.sure {
		moves = append(moves, standing{})
	}
	return moves
}

func (w laws) ownMoves(s standing, until int64, to func(phase) standing) []standing {
	switch {
	case s.phase == waiting && s.due <= until:
		next := to(inHand)
		next.handed = true
		return []standing{next}
	case s.phase == inHand && s.arrived:
		return []standing{to(waiting), to(delivered), to(dead)}
	case s.phase == inHand:
		return []standing{to(waiting), to(dead)}
	case s.phase == delivered && w.rolledBack:
		return []standing{to(waiting)}
	case w.forgets && (s.phase == delivered || s.phase == cancelled):
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
	case arriving:
		if s.handed {
			s.arrived = true
			return []standing{s}
		}
	}
	return nil
}

// unknown tells whether nothing of the message is there.
func (s standing) unknown() bool { return s.phase == absent || s.phase == forgotten }

func keep(s standing, allowed bool) []standing {
	if allowed {
		return []standing{s}
	}
	return nil
}

func (s standing) afterAccept(in step) []standing {
	same := s.content == in.Content || s.phase == delivered || s.phase == cancelled // of these only the id is known
	fresh := standing{phase: waiting, content: in.Content, due: in.Due.UnixMilli(), sure: true}
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
	gone := s
	gone.phase = cancelled
	switch in.Outcome {
	case done:
		gone.handed = in.Sent
		return keep(gone, s.phase == waiting && (in.Sent && s.handed || !in.Sent && !s.arrived))
	case tooLate:
		return keep(s, s.phase != absent && s.phase != waiting && s.fits(in.State))
	case notFound:
		return keep(s, s.unknown())
	}
	if s.phase == waiting {
		return []standing{s, gone}
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
		return keep(s, s.phase != absent && s.phase != waiting && s.fits(in.State))
	case notFound:
		return keep(s, s.unknown())
	}
	if s.phase == waiting {
		moved.due, moved.loose = in.Least.UnixMilli(), true
		return []standing{s, moved}
	}
	return []standing{s}
}

func (s standing) afterGet(in step) []standing {
	switch in.Outcome {
	case done:
		told := s.phase != waiting && s.phase != inHand || s.loose || in.Due.UnixMilli() == s.due
		return keep(s, s.fits(in.State) && told)
	case notFound:
		return keep(s, s.unknown())
	}
	return []standing{s}
}

// fits tells whether a state that was told is that of s.
func (s standing) fits(state string) bool {
	switch state {
	case "scheduled":
		return s.phase == waiting
	case "retrying":
		return s.phase == waiting && s.handed
	case "delivering":
		return s.phase == inHand
	case "delivered":
		return s.phase == delivered
	case "cancelled":
		return s.phase == cancelled
	case "dead", "expired":
		return s.phase == dead
	}
	return false
}
