//go:build unix

package integration

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// accepted is a message that the bridge has promised to deliver.
type accepted struct {
	entry
	headers   []core.Header
	deliverAt time.Time // by the receipt, or if there is none the earliest
	unsure    bool      // there is none
	sends     int       // to the origin, if there is one; each may be a message of its own
}

// ledger holds what was accepted against what arrived.
type ledger struct {
	target   *target
	idHeader string // tells messages apart
	accepted map[string]accepted
	arrived  map[string][]arrival
	places   map[place]bool // that were read: a consumer may read them again
}

type place struct {
	lane   int
	offset int64
}

func newLedger(g *target) *ledger {
	return &ledger{target: g, idHeader: core.HeaderID, accepted: map[string]accepted{}, arrived: map[string][]arrival{}, places: map[place]bool{}}
}

// note takes an arrival down, unless the consumer had it before.
func (l *ledger) note(t *testing.T, a arrival) {
	t.Helper()
	at := place{a.lane, a.offset}
	id := string(a.header(l.idHeader))
	if _, ok := l.accepted[id]; !ok {
		t.Errorf("%q arrived, which was never accepted", id)
	}
	if !l.places[at] {
		l.places[at] = true
		l.arrived[id] = append(l.arrived[id], a)
	}
}

// gather reads until everything accepted has arrived.
func (l *ledger) gather(t *testing.T, arrivals <-chan arrival, limit time.Duration) {
	t.Helper()
	timeout := time.After(limit)
	for len(l.arrived) < len(l.accepted) {
		select {
		case a := <-arrivals:
			l.note(t, a)
		case <-timeout:
			t.Fatalf("%d of %d accepted messages have not arrived", len(l.accepted)-len(l.arrived), len(l.accepted))
		}
	}
}

// gatherRest reads what else there is. The bridge has stopped, so only the
// consumer can still have something under way.
func (l *ledger) gatherRest(t *testing.T, arrivals <-chan arrival) {
	t.Helper()
	const quiet = time.Second
	for {
		select {
		case a := <-arrivals:
			l.note(t, a)
		case <-time.After(quiet):
			return
		}
	}
}

// header returns the last value of that name.
func (a arrival) header(name string) []byte {
	var value []byte
	for _, h := range a.headers {
		if h.Name == name {
			value = h.Value
		}
	}
	return value
}

func (a arrival) attempt() int {
	n, _ := strconv.Atoi(string(a.header(core.HeaderAttempt)))
	return n
}

// check compares every arrival with what was sent, and their order.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	const most = 10
	faults := l.faults()
	for _, fault := range faults[:min(most, len(faults))] {
		t.Error(fault)
	}
	if more := len(faults) - most; more > 0 {
		t.Errorf("and %d more", more)
	}
}

func (l *ledger) faults() []string {
	var faults []string
	for id, all := range l.arrived {
		for _, a := range all {
			want := l.accepted[id]
			if want.sends > 1 {
				want.deliverAt = a.dueNotBefore(want.deliverAt)
			}
			if fault := l.compare(want, a); fault != "" {
				faults = append(faults, id+": "+fault)
			}
		}
	}
	return faults
}

// dueNotBefore is when an arrival says that it was due, if that is after least.
func (a arrival) dueNotBefore(least time.Time) time.Time {
	if due, err := core.ParseTime(string(a.header(core.HeaderDeliverAt))); err == nil && due.After(least) {
		return due
	}
	return least
}

// resolveLate: of a message without a receipt only the earliest time is known at
// which it can be due; if that has passed when it is parked, it is due then. What
// its first arrival says of that must hold for all.
func (l *ledger) resolveLate() (count int) {
	for key, all := range l.arrived {
		m := l.accepted[key]
		if due := all[0].dueNotBefore(m.deliverAt); m.unsure && m.sends < 2 && !due.Equal(m.deliverAt) {
			m.deliverAt = due
			l.accepted[key] = m
			count++
		}
	}
	return count
}

// compare tells what is wrong with an arrival. Empty is nothing.
func (l *ledger) compare(want accepted, got arrival) string {
	switch due := want.deliverAt; {
	case got.at.Before(due), !got.stored.IsZero() && got.stored.Before(due):
		return fmt.Sprintf("due at %s, stored at %s, read at %s: early", due, got.stored, got.at)
	case string(got.header(core.HeaderDeliverAt)) != due.UTC().Format(core.TimeFormat):
		return fmt.Sprintf("header %s is %q, not %s", core.HeaderDeliverAt, got.header(core.HeaderDeliverAt), due)
	case !bytes.Equal(got.body, want.Body):
		return fmt.Sprintf("body %x, not %x", got.body, want.Body)
	case !l.target.lacks(noKey) && !bytes.Equal(got.key, want.Key):
		return fmt.Sprintf("key %q, not %q", got.key, want.Key)
	case got.attempt() < 1:
		return fmt.Sprintf("attempt %q", got.header(core.HeaderAttempt))
	}
	if headers := l.target.ownHeaders(got.headers); !l.target.equalHeaders(headers, want.headers) {
		return fmt.Sprintf("headers %q, not %q", headers, want.headers)
	}
	return ""
}

// ownHeaders are the producer's.
func (g *target) ownHeaders(headers []core.Header) []core.Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h core.Header) bool { return strings.HasPrefix(h.Name, core.HeaderPrefix) })
}

func (g *target) equalHeaders(a, b []core.Header) bool {
	byName := func(a, b core.Header) int { return strings.Compare(a.Name, b.Name) }
	if g.lacks(noOrder) {
		a, b = slices.Clone(a), slices.Clone(b)
		slices.SortFunc(a, byName)
		slices.SortFunc(b, byName)
	}
	// Ordinary consumers don't tell a null value from an empty one.
	return slices.EqualFunc(a, b, func(a, b core.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

// checkOnce: without trouble nothing is sent twice. Of trouble, which a machine
// that stands still makes too, the bridge has counted so many attempts.
func (l *ledger) checkOnce(t *testing.T, troubled int) {
	t.Helper()
	again := 0
	for id, all := range l.arrived {
		last := slices.MaxFunc(all, func(a, b arrival) int { return a.attempt() - b.attempt() }).attempt()
		if len(all) > last {
			t.Errorf("%s arrived %d times in %d attempts", id, len(all), last)
		}
		again += last - 1
	}
	l.checkRepeats(t)
	if again > troubled {
		t.Errorf("%d attempts were not the first, and the bridge tells of %d", again, troubled)
	}
}

// checkRepeats: what arrives again says that it is not the first attempt.
func (l *ledger) checkRepeats(t *testing.T) (repeats int) {
	t.Helper()
	for id, all := range l.arrived {
		first := 0
		for _, a := range all {
			if a.attempt() == 1 {
				first++
			}
		}
		if first > max(1, l.accepted[id].sends) {
			t.Errorf("%s arrived %d times as attempt 1", id, first)
		}
		repeats += len(all) - 1
	}
	return repeats
}

// checkOrder: the messages of a key are in one lane, in the order in which they
// were due. That is promised to those that were all accepted, at posted, before
// they were due, but for what had to be tried again.
func (l *ledger) checkOrder(t *testing.T, posted time.Time) {
	t.Helper()
	lanes, dues, wrong, counted := map[string]int{}, map[string]time.Time{}, 0, 0
	for _, a := range l.inOrder() {
		id := a.header(l.idHeader)
		m := l.accepted[string(id)]
		key := string(m.Key)
		if lane, seen := lanes[key]; seen && lane != a.lane {
			wrong++
		}
		lanes[key] = a.lane
		if !m.deliverAt.After(posted) || len(l.arrived[string(id)]) > 1 || a.attempt() > 1 {
			continue
		}
		counted++
		if dues[key].After(m.deliverAt) {
			wrong++
		}
		dues[key] = m.deliverAt
	}
	if wrong > 0 || counted == 0 {
		t.Errorf("of %d messages %d are out of order within their key", counted, wrong)
	}
}

func (l *ledger) inOrder() []arrival {
	var all []arrival
	for _, some := range l.arrived {
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b arrival) int {
		if a.lane != b.lane {
			return a.lane - b.lane
		}
		return int(a.offset - b.offset)
	})
	return all
}

// lateness at the consumer, in order, of the messages whose ids begin with prefix.
func (l *ledger) lateness(prefix string) []time.Duration {
	var all []time.Duration
	for id, some := range l.arrived {
		if strings.HasPrefix(id, prefix) {
			all = append(all, some[0].at.Sub(l.accepted[id].deliverAt))
		}
	}
	slices.Sort(all)
	return all
}

// quantile of a sorted list.
func quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
