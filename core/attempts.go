package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// What an attempt costs is decided here and nowhere else. Message.Attempt is the try
// that is being made, Outcome.Attempts how many are spent when it is over:
//
//	the attempt                                         is spent
//	confirmed                                           (the message is gone)
//	not made: handed back at a stop, breaker open,
//	  sink in trouble with nothing sent, ErrNotTried    no: it has no Outcome
//	not made: the message has expired                   no, and it is dead
//	topic blocked                                       no, and the wait grows all the same
//	permanent                                           yes, and it is dead
//	failed by the message's own fault                   yes, and it is dead after the last
//	failed alone while others passed (blamed), for
//	  the first time                                    yes, but the last stays
//	trouble of the sink, which may have sent it
//	  (uncertain)                                       yes, but the last stays: where there is only
//	                                                    one it is sent more often than MaxAttempts
//	cut off: its owner ended, or failed, with the
//	  message in flight                                 yes, by the store: see Store.Serve
//
// Who is at fault is found out in isolate.go and evidence.go. The last line is written
// by the store, as the owner is not there to say so. Such a message comes again with
// CutOff, and is dead if the attempt was its last, but not before the second was made.

// over is what becomes of a message that is not to be tried any more: it has expired, or
// a crash has cut off its last attempt.
func (l *bucketLoop) over(m *Message, now time.Time) (Outcome, bool) {
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(now) {
		return Outcome{ID: m.ID, State: Expired, Attempts: m.Attempt - 1, Reason: "expired",
			Error: "expired at " + m.ExpiresAt.UTC().Format(TimeFormat)}, true
	}
	if m.CutOff && m.Attempt > max(2, l.policy(m).MaxAttempts) {
		return Outcome{ID: m.ID, State: Dead, Attempts: m.Attempt - 1, Reason: reasonCrashed,
			Error: fmt.Sprintf("%d attempts were made, the last was cut off by a crash", m.Attempt-1)}, true
	}
	return Outcome{}, false
}

// failed is what becomes of a message that was tried, and that the sink did not confirm.
func (l *bucketLoop) failed(m *Message, err error, now time.Time) Outcome {
	class, policy := ClassOf(err), l.policy(m)
	o := Outcome{ID: m.ID, State: Retrying, Attempts: m.Attempt, Reason: reasonOf(err), Error: err.Error()}
	final, butLast := m.Attempt >= policy.MaxAttempts, min(m.Attempt, policy.MaxAttempts-1)
	at, blame := errors.AsType[blamed](err)
	switch {
	case is[uncertain](err):
		o.Attempts, o.After = max(1, butLast), policy.wait(m.Attempt)
		class = Unknown
	case blame && !at.again && final:
		o.Attempts, o.After = butLast, policy.wait(m.Attempt)
		return o
	case class == Permanent:
		o.State = Dead
	case class == TopicBlocked:
		o.Attempts, o.After = m.Attempt-1, waitAsLate(policy, now.Sub(m.DeliverAt))
	case final:
		o.State, o.Reason = Dead, "attempts"
	default:
		o.After = max(policy.wait(m.Attempt), askedFor(err))
	}
	if class == Unknown {
		l.counts().unknown.Add(1)
	}
	return o
}

// final reports whether this is the last attempt of a message.
func (l *bucketLoop) final(m *Message) bool { return m.Attempt >= l.policy(m).MaxAttempts }

// policy is the sink's RetryPolicy as m overrides it.
func (d *Dispatcher) policy(m *Message) RetryPolicy {
	if len(m.Options) == 0 {
		return d.Retry.withDefaults()
	}
	policy, _ := d.Retry.override(m.Options) // checked by Accept
	return policy.withDefaults()
}

// waitAsLate waits as long again as the message is late already, within the
// policy's bounds: a back-off that grows without counting attempts.
func waitAsLate(policy RetryPolicy, late time.Duration) time.Duration {
	full := min(max(late, policy.Initial), policy.Max)
	return time.Duration(float64(full) * (1 - policy.Jitter*rand.Float64()))
}

// askedFor is how long the broker asked us to wait, but no longer than a policy
// may make a message wait.
func askedFor(err error) time.Duration {
	if e, ok := errors.AsType[*SinkError](err); ok {
		return min(e.After, maxRetryWait)
	}
	return 0
}

// reasonCrashed has a message come again with CutOff.
const reasonCrashed = "crashed"

// reasonOf is the cause of a failure in one word.
func reasonOf(err error) string {
	if errors.Is(err, ErrCrashed) {
		return reasonCrashed
	}
	return ClassOf(err).String()
}
