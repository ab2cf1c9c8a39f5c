package core

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Totals is what one instance has done for one sink since it started.
type Totals struct {
	Accepted  uint64 // parked
	Repeated  uint64 // accepted before: same ID, same content
	Refused   uint64 // by Accept, for whatever reason
	Delivered uint64 // confirmed by the broker and settled
	Retried   uint64 // sent back for another attempt
	Unknown   uint64 // attempts whose outcome is unknown: possible duplicates
	Dead      uint64
	Expired   uint64
	// Lateness of what the broker confirmed: medians and tails to within 7 %.
	LatenessP50, LatenessP99, LatenessMax time.Duration
}

type totals struct {
	accepted, repeated, refused, delivered, retried, unknown, dead, expired atomic.Uint64
	lateness                                                                histogram
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
	return Totals{
		Accepted: t.accepted.Load(), Repeated: t.repeated.Load(), Refused: t.refused.Load(),
		Delivered: t.delivered.Load(), Retried: t.retried.Load(), Unknown: t.unknown.Load(),
		Dead: t.dead.Load(), Expired: t.expired.Load(),
		LatenessP50: t.lateness.quantile(0.50), LatenessP99: t.lateness.quantile(0.99), LatenessMax: t.lateness.quantile(1),
	}
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

// quantile returns the upper edge of the bucket in which the share q ends.
func (h *histogram) quantile(q float64) time.Duration {
	var total uint64
	for n := range h.counts {
		total += h.counts[n].Load()
	}
	if total == 0 {
		return 0
	}
	want, seen := uint64(q*float64(total-1))+1, uint64(0)
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
