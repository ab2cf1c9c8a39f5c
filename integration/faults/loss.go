//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// window is a time of which Redis may lose what it was told, by the level.
type window struct{ from, to time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.from) && !t.After(w.to) }

// mayLose notes that Redis may lose what it was told in that time, and nothing else.
func (r *run) mayLose(from, to time.Time) { r.lossy = append(r.lossy, window{from, to}) }

// lossAllowed tells whether every answer that the message was stored was given
// in a time of which Redis may lose what it was told.
func (a *account) lossAllowed(lossy []window) bool {
	return a.allIn(lossy, func(e entry) bool { return e.Kind == accepting && (e.Outcome == done || e.Outcome == duplicate) })
}

// undoneAllowed tells whether every answer that the message was cancelled may
// have been lost.
func (a *account) undoneAllowed(lossy []window) bool {
	return a.allIn(lossy, func(e entry) bool { return e.Kind == cancelling && e.Outcome == done })
}

// allIn tells whether there are windows, and all answers that are meant lie in one.
func (a *account) allIn(windows []window, meant func(entry) bool) bool {
	return len(windows) > 0 && !slices.ContainsFunc(a.calls, func(e entry) bool {
		return meant(e) && !slices.ContainsFunc(windows, func(w window) bool { return w.has(e.Return) })
	})
}

// allowedLosses are the messages that Redis has lost where it may.
func (r *run) allowedLosses() []*account {
	var lost []*account
	for _, a := range r.ledger.accounts() {
		if a.accepted() && !a.settled() && !a.maybeWithdrawn() && a.parked == "" && a.lossAllowed(r.lossy) {
			lost = append(lost, a)
		}
	}
	return lost
}

// awaitDue waits for what Redis may have lost, as it may have kept it, and asks
// the store for what does not come.
func (r *run) awaitDue(healed time.Time) {
	if len(r.lossy) == 0 {
		return
	}
	time.Sleep(time.Until(healed.Add(2 * time.Second)))
	r.lookFor(r.allowedLosses())
	lost := r.allowedLosses()
	r.seen["lost where it may be"] = len(lost)
	r.note = fmt.Sprintf("%d lost of the %d accepted where loss is allowed, and no other", len(lost), r.acceptedWhereLossIsAllowed())
}

func (r *run) acceptedWhereLossIsAllowed() int {
	n := 0
	for _, a := range r.ledger.accounts() {
		if a.accepted() && a.lossAllowed(r.lossy) {
			n++
		}
	}
	return n
}

// forgotten tells whether Redis may have rolled back that the message was sent, or
// even that it was there, before anybody cancelled it: that is not waited for.
func (w laws) forgotten(a *account, faults []fault) bool {
	for _, got := range a.arrivals {
		for _, e := range a.calls {
			if e.cleanCancel() && !rolledBackBetween(got, e, faults) {
				return false
			}
		}
	}
	return w.rolledBack
}

// rolledBackBetween tells whether a fault lay between an arrival and the answer to a
// cancel, which may have been tried again after the fault.
func rolledBackBetween(got, cancel entry, faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return got.Call.Before(cancel.Return) && got.Call.Before(f.To) && cancel.Return.After(f.From)
	})
}
