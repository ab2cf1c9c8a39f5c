//go:build unix

package main

import "github.com/delaybridge/delaybridge/core"

// died is the part of L1 about dead letters: only what the row made such that it
// may die is one, at the attempt and with the reason that the row says, and it has
// not arrived.
func (w laws) died(a *account) []finding {
	if len(a.deaths) == 0 {
		return nil
	}
	death, reason, attempt := a.deaths[0], core.Permanent.String(), 1
	if n := a.attempts(); n > 0 {
		reason, attempt = "attempts", n
	}
	switch {
	case !a.mortal():
		found := breach("L1", "%s is a dead letter (%s), and nothing of the kind was done", a.name, death.Code)
		found.spent = death.Code == "attempts"
		return []finding{found}
	case death.Code != reason || death.Attempt != attempt:
		return []finding{breach("L1", "%s is a dead letter by attempt %d for %q, and should be by attempt %d for %q",
			a.name, death.Attempt, death.Code, attempt, reason)}
	case len(a.arrivals) > 0:
		return []finding{breach("L1", "%s is a dead letter and has arrived", a.name)}
	}
	return nil
}

// mortal tells whether the message is such that it may become a dead letter.
func (a *account) mortal() bool {
	for _, e := range a.calls {
		if e.Mortal {
			return true
		}
	}
	return false
}

// attempts is after how many a message is to die, if it is not to die at the first.
func (a *account) attempts() int {
	for _, e := range a.calls {
		if e.Attempts > 0 {
			return e.Attempts
		}
	}
	return 0
}

// bury notes dead letters when nothing is missing but what may be one, or withdrawn.
func (r *run) bury(missing []*account) {
	for _, a := range missing {
		if !a.mortal() && !a.maybeWithdrawn() {
			return
		}
	}
	r.harmIf(r.deadLetters(r.bridges[0]))
}
