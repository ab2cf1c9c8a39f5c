//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// kind is what an entry of the ledger tells of.
type kind string

const (
	accepting    kind = "accept"
	cancelling   kind = "cancel"
	rescheduling kind = "reschedule"
	looking      kind = "get"
	redriving    kind = "redrive"
	discarding   kind = "discard"
	arriving     kind = "arrive" // at the sink
	dying        kind = "dead"   // found among the dead letters
	parking      kind = "parked" // found in the store at the end
)

// outcome is how a call was answered.
type outcome string

const (
	done      outcome = "done"      // accepted, cancelled, rescheduled, found
	duplicate outcome = "duplicate" // accepted before
	conflict  outcome = "conflict"  // the name is taken by other content
	tooLate   outcome = "too late"
	notFound  outcome = "not found"
	refused   outcome = "refused" // nothing was changed, the answer says
	unknown   outcome = "unknown" // it may or may not have been done
	again     outcome = "again"   // a broker has the same once more, which may be a message of its own
)

// entry is one thing that happened to one message, as seen from outside.
type entry struct {
	Kind kind   `json:"kind"`
	Name string `json:"name"` // of the message: it travels in a header
	ID   string `json:"id,omitempty"`
	// Generated: the bridge made the id.
	Generated bool      `json:"generated,omitempty"`
	Bridge    string    `json:"bridge,omitempty"`
	Call      time.Time `json:"call"`   // of an arrival: when the bridge printed it
	Return    time.Time `json:"return"` // of an arrival: when the harness read it
	Outcome   outcome   `json:"outcome,omitempty"`
	Code      string    `json:"code,omitempty"` // of a problem
	// Content is the hash of what was sent, or arrived.
	Content string `json:"content,omitempty"`
	// Due is when the message is to be delivered, by the answer or the arrival.
	Due time.Time `json:"due,omitzero"`
	// Least is the earliest time that the call can have made it due.
	Least time.Time `json:"least,omitzero"`
	State string    `json:"state,omitempty"`
	// Sent: the answer says that the message may have been sent.
	Sent    bool `json:"sent,omitempty"`
	Attempt int  `json:"attempt,omitempty"`
	// Topic is where it arrived.
	Topic string `json:"topic,omitempty"`
	// Mortal: the message is such that it may become a dead letter.
	Mortal bool `json:"mortal,omitempty"`
	// Attempts is after how many it does, for want of more; 0: at the first, for good.
	Attempts int `json:"attempts,omitempty"`
}

// fault is something that the harness did to the system.
type fault struct {
	What    string    `json:"fault"`
	Bridges []string  `json:"bridges,omitempty"` // that it struck; none: all
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Clean: what it touched was not stored, which was said, so that it is no
	// reason for anything to arrive again.
	Clean bool `json:"clean,omitempty"`
}

func (f fault) strikes(bridge string) bool {
	return !f.Clean && (len(f.Bridges) == 0 || slices.Contains(f.Bridges, bridge))
}

// ledger is the account of one run: an append-only file, and the same in memory,
// from which the run is evaluated. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	err     error
	entries []entry
	faults  []fault
}

// openLedger writes to a new file at path; none if path is empty.
func openLedger(path string) (*ledger, error) {
	l := &ledger{}
	if path == "" {
		return l, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l.file, l.out = file, bufio.NewWriter(file)
	return l, nil
}

func (l *ledger) note(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	l.write(e)
}

func (l *ledger) noteFault(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
	l.write(f)
}

func (l *ledger) write(what any) {
	if l.out == nil || l.err != nil {
		return
	}
	l.err = json.NewEncoder(l.out).Encode(what)
}

// close returns the first error of writing: an account with gaps proves nothing.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return nil
	}
	if err := l.out.Flush(); l.err == nil {
		l.err = err
	}
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	if l.err != nil {
		return fmt.Errorf("write ledger: %w", l.err)
	}
	return nil
}

// count tells how many entries hold.
func (l *ledger) count(holds func(entry) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if holds(e) {
			n++
		}
	}
	return n
}

// late counts the chosen arrivals, and how many of them came more than that much
// after they were due.
func (l *ledger) late(most time.Duration, chosen func(entry) bool) (late, all int) {
	arrived := func(e entry) bool { return e.Kind == arriving && chosen(e) }
	return l.count(func(e entry) bool { return arrived(e) && e.Call.Sub(e.Due) > most }), l.count(arrived)
}

// account is all that happened to one message.
type account struct {
	name     string
	calls    []entry // accept, cancel, reschedule, get, redrive, discard; in order of their calls
	arrivals []entry
	deaths   []entry
	parked   string // the state in which it was found at the end; empty if it was not
}

// accounts sorts the ledger by message, in order of first mention.
func (l *ledger) accounts() []*account {
	l.mu.Lock()
	defer l.mu.Unlock()
	byName, all := map[string]*account{}, []*account(nil)
	for _, e := range l.entries {
		a := byName[e.Name]
		if a == nil {
			a = &account{name: e.Name}
			byName[e.Name], all = a, append(all, a)
		}
		a.add(e)
	}
	return all
}

func (a *account) add(e entry) {
	switch e.Kind {
	case arriving:
		a.arrivals = append(a.arrivals, e)
	case dying:
		a.deaths = append(a.deaths, e)
	case parking:
		a.parked = e.State
	default:
		a.calls = append(a.calls, e)
	}
}

// accepted tells whether the producer was told that the message is stored.
func (a *account) accepted() bool { return a.any(accepting, done, duplicate) }

// published counts how often a broker took the message, each of which may have made one
// of its own.
func (a *account) published() int {
	n := 1
	for _, e := range a.calls {
		if e.Outcome == again {
			n++
		}
	}
	return n
}

// any tells whether a call of that kind had one of these outcomes.
func (a *account) any(k kind, outcomes ...outcome) bool {
	return slices.ContainsFunc(a.calls, func(e entry) bool { return e.Kind == k && slices.Contains(outcomes, e.Outcome) })
}

// cleanCancel tells whether it promised that the message is never delivered.
func (e entry) cleanCancel() bool { return e.Kind == cancelling && e.Outcome == done && !e.Sent }

// cleanlyCancelled tells whether a cancel promised that it is never delivered.
func (a *account) cleanlyCancelled() bool {
	return slices.ContainsFunc(a.calls, entry.cleanCancel)
}

// settled tells whether nothing more is to be expected of an accepted message. A
// cancel or discard whose outcome is unknown leaves it open.
func (a *account) settled() bool {
	return len(a.arrivals) > 0 || len(a.deaths) > 0 || a.any(cancelling, done) || a.any(discarding, done)
}

// id is that of the message, as its producer knows it.
func (a *account) id() string {
	id := a.name
	for _, e := range a.calls {
		if e.ID != "" {
			id = e.ID
		}
	}
	return id
}

// maybeWithdrawn tells whether the message may have been cancelled, or discarded.
func (a *account) maybeWithdrawn() bool {
	return a.any(cancelling, done, unknown) || a.any(discarding, done, unknown) ||
		slices.ContainsFunc(a.calls, func(e entry) bool { return e.State == "cancelled" })
}

// lastDue is the latest time at which the message can be due by our clock, with
// Redis's so far ahead of it.
func (a *account) lastDue(ahead time.Duration) time.Time {
	var last time.Time
	for _, e := range a.calls {
		for _, t := range []time.Time{e.Due.Add(-ahead), e.Least} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last
}

// snapshot is a copy of all entries so far.
func (l *ledger) snapshot() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}
