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
	deliverAt time.Time // by the receipt
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
			if fault := l.compare(l.accepted[id], a); fault != "" {
				faults = append(faults, id+": "+fault)
			}
		}
	}
	return faults
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

// checkOnce: without trouble nothing is sent twice.
func (l *ledger) checkOnce(t *testing.T) {
	t.Helper()
	for id, all := range l.arrived {
		if len(all) != 1 || all[0].attempt() != 1 {
			t.Errorf("%s arrived %d times, first with attempt %d", id, len(all), all[0].attempt())
		}
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
		if first > 1 {
			t.Errorf("%s arrived %d times as attempt 1", id, first)
		}
		repeats += len(all) - 1
	}
	return repeats
}

// checkOrder: the messages of a key are in one lane, in the order in which they
// were due.
func (l *ledger) checkOrder(t *testing.T) {
	t.Helper()
	type last struct {
		lane int
		due  time.Time
	}
	keys, wrong := map[string]last{}, 0
	for _, a := range l.inOrder() {
		m := l.accepted[string(a.header(l.idHeader))]
		before, seen := keys[string(m.Key)]
		if seen && (before.lane != a.lane || before.due.After(m.deliverAt)) {
			wrong++
		}
		keys[string(m.Key)] = last{a.lane, m.deliverAt}
	}
	if wrong > 0 {
		t.Errorf("%d messages are out of order within their key", wrong)
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
