package memstore

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// place is where in its bucket a record is.
type place int

const (
	waiting  place = iota // in one of bucket.waiting
	inFlight              // in bucket.inFlight
	dead                  // in bucket.records alone
)

const (
	reasonExpired = "expired"
	reasonCrashed = "crashed"
	errorCrashed  = "attempt was cut off"
)

// record is a stored message and what became of it so far.
type record struct {
	message core.Message // as parked, with its times resolved
	place   place
	due     time.Time // when it will next be tried; when it died, if dead
	seq     uint64    // of those with equal due times, the lower goes first
	index   int       // in its queue, while waiting
	// attempts counts those that are over. It may be zero although reason says
	// that one failed, as not every failure is the message's own.
	attempts    int
	reason, err string
}

// newRecord copies m, as the caller may reuse what it gave.
func newRecord(m *core.Message, now time.Time) *record {
	kept := *m
	kept.Key, kept.Body = bytes.Clone(m.Key), bytes.Clone(m.Body)
	kept.Headers = slices.Clone(m.Headers)
	for n := range kept.Headers {
		kept.Headers[n].Value = bytes.Clone(kept.Headers[n].Value)
	}
	kept.Options = maps.Clone(m.Options)
	kept.DeliverAt, kept.Delay = resolve(m.DeliverAt, m.Delay, now), 0
	kept.ExpiresAt, kept.TTL = resolveExpiry(m.ExpiresAt, m.TTL, now), 0
	kept.Attempt, kept.CutOff = 0, false
	return &record{message: kept}
}

func (r *record) state() core.State {
	switch {
	case r.place == inFlight:
		return core.Delivering
	case r.place == dead && r.reason == reasonExpired:
		return core.Expired
	case r.place == dead:
		return core.Dead
	case r.attempts > 0 || r.reason != "":
		return core.Retrying
	default:
		return core.Scheduled
	}
}

// taken returns the message as Take hands it out.
func (r *record) taken() *core.Message {
	m := r.message
	m.Attempt = r.attempts + 1
	m.CutOff = r.reason == reasonCrashed
	return &m
}

// failed notes what became of the last attempt.
func (r *record) failed(attempts int, reason, err string) {
	r.attempts, r.reason, r.err = attempts, reason, core.Shorten(err, core.MaxErrorText)
}

func (r *record) receipt(state core.State) core.Receipt {
	return core.Receipt{
		ID: r.message.ID, Sink: r.message.Sink, State: state, DeliverAt: r.message.DeliverAt,
		Attempt: r.attempts, Durability: durability,
	}
}

// entry returns the record as people look at it; Message.Attempt is how many
// attempts are over.
func (r *record) entry() core.Entry {
	m := r.message
	m.Attempt = r.attempts
	return core.Entry{
		Message: &m, State: r.state(), Reason: r.reason, Error: r.err, Due: r.due,
		BodySize: len(m.Body), MayHaveBeenSent: r.attempts > 0 || r.place == inFlight,
	}
}
