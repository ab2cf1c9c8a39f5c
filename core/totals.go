package core

import (
	"sync/atomic"
	"time"
)

// Counts are numbers of messages of one sink.
type Counts struct {
	Accepted uint64 `json:"acc,omitempty"` // parked
	// Republished counts those of Accepted that were delivered before and published
	// again by a consumer.
	Republished uint64 `json:"rep,omitempty"`
	Repeated    uint64 `json:"dup,omitempty"`  // duplicates: same ID, same content
	Refused     uint64 `json:"ref,omitempty"`  // by Accept, for any reason
	Delivered   uint64 `json:"del,omitempty"`  // confirmed by the broker and settled
	Retried     uint64 `json:"ret,omitempty"`  // to be tried again
	Unknown     uint64 `json:"unk,omitempty"`  // attempts whose outcome is unknown: possible duplicates
	Dead        uint64 `json:"dead,omitempty"` // but for those that expired
	Expired     uint64 `json:"exp,omitempty"`
}

// combine returns what f makes of each pair of counts.
func (c Counts) combine(d Counts, f func(c, d uint64) uint64) Counts {
	return Counts{
		Accepted: f(c.Accepted, d.Accepted), Republished: f(c.Republished, d.Republished), Repeated: f(c.Repeated, d.Repeated),
		Refused: f(c.Refused, d.Refused), Delivered: f(c.Delivered, d.Delivered), Retried: f(c.Retried, d.Retried),
		Unknown: f(c.Unknown, d.Unknown), Dead: f(c.Dead, d.Dead), Expired: f(c.Expired, d.Expired),
	}
}

func plus(c, d uint64) uint64  { return c + d }
func minus(c, d uint64) uint64 { return c - d }

// Recent is what happened in a time that has just passed.
type Recent struct {
	Counts
	// Lateness of the messages confirmed in this time, to within 7 %; zero if there were
	// none.
	LatenessP50 time.Duration `json:"p50,omitempty"`
	LatenessP99 time.Duration `json:"p99,omitempty"`
	LatenessMax time.Duration `json:"max,omitempty"`
}

func (r *Recent) add(other Recent) {
	r.Counts = r.combine(other.Counts, plus)
	r.LatenessP50 = max(r.LatenessP50, other.LatenessP50)
	r.LatenessP99 = max(r.LatenessP99, other.LatenessP99)
	r.LatenessMax = max(r.LatenessMax, other.LatenessMax)
}

type totals struct {
	accepted, republished, repeated, refused, delivered, retried, unknown, dead, expired atomic.Uint64
	inFlight, owned                                                                      atomic.Int64 // owned: buckets
	recent                                                                               recent
}

// begin is called with the time before something is counted.
func (t *totals) begin(now time.Time) { t.recent.begin(now, t.counts) }

func (t *totals) settled(outcomes []Outcome) {
	t.begin(time.Now())
	counts := make(map[State]uint64, 4)
	for _, o := range outcomes {
		counts[o.State]++
	}
	t.delivered.Add(counts[Delivered])
	t.retried.Add(counts[Retrying])
	t.dead.Add(counts[Dead])
	t.expired.Add(counts[Expired])
}

func (t *totals) counts() Counts {
	return Counts{
		Accepted: t.accepted.Load(), Republished: t.republished.Load(), Repeated: t.repeated.Load(), Refused: t.refused.Load(),
		Delivered: t.delivered.Load(), Retried: t.retried.Load(), Unknown: t.unknown.Load(),
		Dead: t.dead.Load(), Expired: t.expired.Load(),
	}
}
