package core

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Totals are the counts of one instance for one sink since it started.
type Totals struct {
	Accepted uint64 // parked
	// Republished counts those of Accepted that were delivered before and published
	// again by a consumer.
	Republished uint64
	Repeated    uint64 // duplicates: same ID, same content
	Refused     uint64 // by Accept, for any reason
	Delivered   uint64 // confirmed by the broker and settled
	Retried     uint64 // to be tried again
	Unknown     uint64 // attempts whose outcome is unknown: possible duplicates
	Dead        uint64
	Expired     uint64
	InFlight    int64 // now: taken and not yet settled
	// Lateness of the messages confirmed in the last four to five minutes, to within 7
	// %; zero if there were none.
	LatenessP50, LatenessP99, LatenessMax time.Duration
}

type totals struct {
	accepted, republished, repeated, refused, delivered, retried, unknown, dead, expired atomic.Uint64
	inFlight                                                                             atomic.Int64
	lateness                                                                             window
}

func (t *totals) settled(outcomes []Outcome) {
	counts := make(map[State]uint64, 4)
	for _, o := range outcomes {
		counts[o.State]++
	}
	t.delivered.Add(counts[Delivered])
	t.retried.Add(counts[Retrying])
	t.dead.Add(counts[Dead])
	t.expired.Add(counts[Expired])
}

func (t *totals) read() Totals {
	lateness := t.lateness.sum()
	return Totals{
		Accepted: t.accepted.Load(), Republished: t.republished.Load(), Repeated: t.repeated.Load(), Refused: t.refused.Load(),
		Delivered: t.delivered.Load(), Retried: t.retried.Load(), Unknown: t.unknown.Load(),
		Dead: t.dead.Load(), Expired: t.expired.Load(), InFlight: t.inFlight.Load(),
		LatenessP50: lateness.quantile(0.50), LatenessP99: lateness.quantile(0.99), LatenessMax: lateness.quantile(1),
	}
}

// window is a histogram of the last minutes, so that figures recover when an
// outage is over. The zero value is empty; safe for concurrent use.
type window struct {
	spans atomic.Pointer[[]*span] // newest first
}

// span is a part of a window; the last one grows for windowSpan.
type span struct {
	began time.Time
	histogram
}

const (
	windowSpan  = time.Minute
	windowSpans = 5
)

func (w *window) record(d time.Duration) {
	now, spans := time.Now(), w.spans.Load()
	for spans == nil || now.Sub((*spans)[0].began) >= windowSpan {
		next := []*span{{began: now}}
		if spans != nil {
			next = append(next, (*spans)[:min(len(*spans), windowSpans-1)]...)
		}
		if w.spans.CompareAndSwap(spans, &next) {
			spans = &next
		} else {
			spans = w.spans.Load()
		}
	}
	(*spans)[0].record(d)
}

// sum is what was recorded since the window began.
func (w *window) sum() *histogram {
	var sum histogram
	if spans := w.spans.Load(); spans != nil {
		for _, s := range *spans {
			if time.Since(s.began) < windowSpans*windowSpan {
				sum.add(&s.histogram)
			}
		}
	}
	return &sum
}

// histogram counts durations in microseconds, in buckets that are a sixteenth
// of a power of two wide. The zero value is empty; safe for concurrent use.
type histogram struct {
	counts [64 * subBuckets]atomic.Uint64
}

const (
	subBits    = 4
	subBuckets = 1 << subBits
)

func (h *histogram) record(d time.Duration) {
	h.counts[slot(uint64(max(0, d.Microseconds())))].Add(1)
}

func slot(us uint64) int {
	shift := max(0, bits.Len64(us)-subBits-1)
	return shift<<subBits + int(us>>shift)
}

func (h *histogram) add(other *histogram) {
	for n := range h.counts {
		h.counts[n].Add(other.counts[n].Load())
	}
}

// quantile returns the upper edge of the bucket in which the share q ends.
func (h *histogram) quantile(q float64) time.Duration {
	var total uint64
	for n := range h.counts {
		total += h.counts[n].Load()
	}
	if total == 0 {
		return 0
	}
	want, seen := uint64(math.Ceil(q*float64(total))), uint64(0)
	for n := range h.counts {
		if seen += h.counts[n].Load(); seen >= want {
			return time.Duration(upperEdge(n)) * time.Microsecond
		}
	}
	return 0
}

func upperEdge(n int) uint64 {
	if n < 2*subBuckets {
		return uint64(n)
	}
	shift := n>>subBits - 1
	return uint64(n-shift<<subBits+1)<<shift - 1
}
