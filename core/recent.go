package core

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// recent is what happened in the last minute, five minutes and hour, so that figures
// recover when an outage is over. Each is a window of spans of equal length, of which
// the oldest is dropped as a whole: so the last minute is one of 50 to 60 s, and so on.
// With its histograms a sink that is busy takes about 62 KiB, and one that does nothing
// none. The zero value is empty; safe for concurrent use.
type recent [3]window

// The windows of recent.
const (
	last1m = iota
	last5m
	last60m
)

// grains are the lengths of the spans of each window, and how many there are.
func grains() [3]grain {
	return [3]grain{last1m: {shortest, 6}, last5m: {time.Minute, 5}, last60m: {5 * time.Minute, 12}}
}

const shortest = 10 * time.Second

type grain struct {
	span  time.Duration
	spans int
}

// window has its spans, newest first.
type window struct{ spans atomic.Pointer[[]*span] }

// span begins with the first that is counted after the span before is over.
type span struct {
	began    time.Time
	before   Counts // since the start, when it began
	lateness histogram
}

// begin has what is counted from now on belong to the span of now. counts are those
// since the start.
func (r *recent) begin(now time.Time, counts func() Counts) {
	if spans := r[last1m].spans.Load(); spans != nil && now.Sub((*spans)[0].began) < shortest {
		return // nor is a longer span over
	}
	all := grains()
	for n, g := range slices.Backward(all[:]) { // the shortest last, as it says that all are there
		r[n].begin(now, g, counts)
	}
}

func (w *window) begin(now time.Time, g grain, counts func() Counts) {
	spans := w.spans.Load()
	for spans == nil || now.Sub((*spans)[0].began) >= g.span {
		next := []*span{{began: now, before: counts()}}
		if spans != nil {
			next = append(next, (*spans)[:min(len(*spans), g.spans-1)]...)
		}
		if w.spans.CompareAndSwap(spans, &next) {
			return
		}
		spans = w.spans.Load()
	}
}

// late counts the lateness of a message. begin was called before.
func (r *recent) late(d time.Duration) {
	at := slot(d)
	for n := range r {
		(*r[n].spans.Load())[0].lateness[at].Add(1)
	}
}

// read returns what one of the windows has.
func (r *recent) read(n int, counts func() Counts) Recent {
	g, spans := grains()[n], r[n].spans.Load()
	if spans == nil {
		return Recent{}
	}
	var oldest *span
	var lateness tally
	for _, s := range *spans {
		if time.Since(s.began) < time.Duration(g.spans)*g.span {
			oldest = s
			lateness.add(&s.lateness)
		}
	}
	if oldest == nil {
		return Recent{}
	}
	return Recent{Counts: counts().combine(oldest.before, minus),
		LatenessP50: lateness.quantile(0.50), LatenessP99: lateness.quantile(0.99), LatenessMax: lateness.quantile(1)}
}

// histogram counts durations in microseconds, in slots that are a sixteenth of a power
// of two wide.
type histogram [slots]atomic.Uint32

// tally is the sum of histograms.
type tally [slots]uint64

const (
	subBits  = 4
	subSlots = 1 << subBits
	// longestBits are those of the longest duration that is told apart: about a year.
	longestBits = 45
	slots       = (longestBits - subBits + 1) * subSlots
)

func slot(d time.Duration) int {
	us := min(uint64(max(0, d.Microseconds())), 1<<longestBits-1)
	shift := max(0, bits.Len64(us)-subBits-1)
	return shift<<subBits + int(us>>shift)
}

func (t *tally) add(h *histogram) {
	for n := range h {
		t[n] += uint64(h[n].Load())
	}
}

// quantile returns the upper edge of the slot in which the share q ends.
func (t *tally) quantile(q float64) time.Duration {
	var total uint64
	for _, n := range t {
		total += n
	}
	if total == 0 {
		return 0
	}
	want, seen := uint64(math.Ceil(q*float64(total))), uint64(0)
	for at, n := range t {
		if seen += n; seen >= want {
			return time.Duration(upperEdge(at)) * time.Microsecond
		}
	}
	return 0
}

func upperEdge(n int) uint64 {
	if n < 2*subSlots {
		return uint64(n)
	}
	shift := n>>subBits - 1
	return uint64(n-shift<<subBits+1)<<shift - 1
}
