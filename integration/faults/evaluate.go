//go:build unix

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// check sums up a run.
func (r *run) check(w laws, l *load, leaks []finding, out *result) {
	findings := append(w.check(r.ledger), leaks...)
	findings = append(findings, r.own...)
	if !r.row.split {
		findings = append(findings, w.linear(r.ledger)...)
	}
	out.counts, out.faults, out.findings = count(r.ledger), len(r.ledger.faults), findings
	if err := errors.Join(append(r.harms, r.ledger.close())...); err != nil {
		out.status, out.reason = broken, err.Error()
		return
	}
	if r.row.mustLose {
		out.showLoss()
		return
	}
	switch missed := r.missed(l, out.counts); {
	case len(out.findings) > 0:
		out.status, out.reason = failed, out.findings[0].law+": "+out.findings[0].text
	case missed != "":
		out.status, out.reason = void, missed
	default:
		out.status, out.reason = passed, r.note
	}
}

// showLoss is the result on a row that must lose: it passes if loss was seen, and
// nothing that no loss explains.
func (out *result) showLoss() {
	lost := 0
	for _, f := range out.findings {
		switch f.law {
		case "L1":
			lost++
		case "L2", "L3", "L4":
			out.status, out.reason = failed, f.law+": "+f.text
			return
		}
	}
	out.status, out.reason = failed, "nothing was lost, so the harness has shown nothing"
	if lost > 0 {
		out.status, out.reason = passed, fmt.Sprintf("as it must, it lost %d of %d", lost, out.counts.accepted)
		out.findings = nil
	}
}

// excusable tells whether processes that stand still for want of a processor may
// be the reason for all findings. They are late, hold more, lose what they own
// and so repeat, and may use up all attempts. Nothing makes them lose a message,
// send early, or something else, or what was cancelled.
func excusable(findings []finding) bool {
	return !slices.ContainsFunc(findings, func(f finding) bool {
		switch f.law {
		case "L6", "L7", "L9", "L10":
			return false
		}
		return !f.spent
	})
}

// leastRate is the share of the planned load that must have been sent.
const leastRate = 0.8

// missed is L10: which rare state was not reached, or that the load was too low.
// Empty is nothing: the run tells something.
func (r *run) missed(l *load, c counts) string {
	if float64(l.sent) < leastRate*float64(l.planned) {
		return fmt.Sprintf("only %d of %d planned messages were sent", l.sent, l.planned)
	}
	if float64(c.accepted) < leastRate*float64(l.sent) {
		return fmt.Sprintf("only %d of %d messages were accepted", c.accepted, l.sent)
	}
	seen := r.rareStates(c)
	for _, state := range slices.Sorted(maps.Keys(r.row.needs)) {
		if seen[state] < r.row.needs[state] {
			return fmt.Sprintf("%q was reached %d times, not %d", state, seen[state], r.row.needs[state])
		}
	}
	return ""
}

// rareStates are what the nemesis has seen, and what the ledger tells.
func (r *run) rareStates(c counts) map[string]int {
	seen := maps.Clone(r.seen)
	seen["repeated"], seen["attempts over 1"], seen["unknown"], seen["refused"], seen["dead"] = c.repeats, c.retried, c.unknown, c.refused, c.dead
	for name, holds := range map[string]func(entry) bool{
		"duplicate": func(e entry) bool { return e.Outcome == duplicate },
		"conflict":  func(e entry) bool { return e.Outcome == conflict },
		"cancelled": func(e entry) bool { return e.Kind == cancelling && e.Outcome == done },
		"redriven":  func(e entry) bool { return e.Kind == redriving && e.Outcome == done },
		"discarded": func(e entry) bool { return e.Kind == discarding && e.Outcome == done },
		"too late":  func(e entry) bool { return e.Outcome == tooLate },
		"full":      func(e entry) bool { return e.Code == "store_full" },
		"unready":   func(e entry) bool { return e.Code == "unavailable" },
	} {
		seen[name] = r.ledger.count(holds)
	}
	return seen
}

// vitals are those of the bridges by process id, when all is calm.
func (r *run) vitals() map[int]vitals {
	all := map[int]vitals{}
	for _, b := range r.bridges {
		if v := b.vitals(); v.pid != 0 {
			all[v.pid] = v
		}
	}
	return all
}

// How much more than at the start a process may hold at the end.
const (
	moreFiles      = 100 // connections to Redis stay open for a while: 64 at most for callers, and one for each bucket
	moreGoroutines = 80
	moreRSS        = 96 << 10 // kB
)

// closedIn is how long a process may take to notice that its clients are gone.
const closedIn = 5 * time.Second

// leaks is L9, for the processes that lived through the run.
func (r *run) leaks(before map[int]vitals) []finding {
	r.client.CloseIdleConnections()
	for deadline := time.Now().Add(closedIn); ; {
		all := r.grown(before)
		if len(all) == 0 || time.Now().After(deadline) {
			return all
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// grown is what holds more than a process may.
func (r *run) grown(before map[int]vitals) []finding {
	var all []finding
	for pid, after := range r.vitals() {
		was, old := before[pid]
		if !old {
			continue
		}
		if after.files > was.files+moreFiles || after.goroutines > was.goroutines+moreGoroutines || after.rssKB > was.rssKB+moreRSS {
			all = append(all, breach("L9", "process %d had %+v and has %+v", pid, was, after))
		}
	}
	return all
}
