package core

import (
	"errors"
	"math/rand/v2"
	"time"
)

// judge turns what the sink said of batch into outcomes, and opens or closes
// the gate. now is the store's clock.
func (l *bucketLoop) judge(batch []*Message, err error, now time.Time, p pass) []Outcome {
	if err == nil {
		p.open(l)
		return l.delivered(batch, now)
	}
	if verdicts, ok := errors.AsType[BatchError](err); ok && len(verdicts) == len(batch) {
		return l.judgeEach(batch, verdicts, now, p)
	}
	return l.judgeSink(batch, err, now, p)
}

func (l *bucketLoop) delivered(batch []*Message, now time.Time) []Outcome {
	outcomes := make([]Outcome, len(batch))
	for n, m := range batch {
		outcomes[n] = l.confirm(m, now)
	}
	return outcomes
}

func (l *bucketLoop) confirm(m *Message, now time.Time) Outcome {
	l.totals.lateness.record(now.Sub(m.DeliverAt))
	return Outcome{ID: m.ID, State: Delivered}
}

// judgeSink handles trouble that is the sink's as a whole: the gate closes, and
// no message is blamed.
func (l *bucketLoop) judgeSink(batch []*Message, err error, now time.Time, p pass) []Outcome {
	switch class := ClassOf(err); {
	case errors.Is(err, errPanic), class == Permanent, class == TopicBlocked:
		return l.judgeEach(batch, spread(err, len(batch)), now, p)
	case class == Unknown:
		p.close(l, err)
		return l.unknownAll(batch, err, now)
	default:
		p.close(l, err)
		return nil
	}
}

// unknownAll sends a batch back that may have been sent. The attempt counts, as
// consumers see it, but trouble of the sink never spends a message's last one:
// where there is but one, a message may be sent more often than MaxAttempts.
func (l *bucketLoop) unknownAll(batch []*Message, err error, now time.Time) []Outcome {
	outcomes := make([]Outcome, len(batch))
	for n, m := range batch {
		policy := l.policy(m)
		outcomes[n] = Outcome{ID: m.ID, State: Retrying, Reason: Unknown.String(), Error: err.Error(),
			After: policy.wait(m.Attempt), Attempts: min(m.Attempt, max(1, policy.MaxAttempts-1))}
	}
	l.totals.unknown.Add(uint64(len(batch)))
	return outcomes
}

// judgeEach handles a verdict for each message.
func (l *bucketLoop) judgeEach(batch []*Message, verdicts BatchError, now time.Time, p pass) []Outcome {
	outcomes, blocked := make([]Outcome, 0, len(batch)), error(nil)
	for n, m := range batch {
		switch err := verdicts[n]; {
		case err == nil:
			outcomes = append(outcomes, l.confirm(m, now))
		case ClassOf(err) == Blocked:
			blocked = err
		default:
			outcomes = append(outcomes, l.failed(m, err, now))
		}
	}
	if blocked != nil {
		p.close(l, blocked)
	} else {
		p.open(l)
	}
	return outcomes
}

// failed decides what becomes of one message that was not delivered.
func (l *bucketLoop) failed(m *Message, err error, now time.Time) Outcome {
	class, policy := ClassOf(err), l.policy(m)
	o := Outcome{ID: m.ID, State: Retrying, Attempts: m.Attempt, Reason: class.String(), Error: err.Error()}
	switch {
	case class == Permanent:
		o.State = Dead
	case class == TopicBlocked:
		o.Attempts = m.Attempt - 1
		o.After = waitAsLate(policy, now.Sub(m.DeliverAt))
	case m.Attempt >= policy.MaxAttempts:
		o.State = Dead
		o.Reason = "attempts"
	default:
		o.After = max(policy.wait(m.Attempt), askedFor(err))
	}
	if class == Unknown {
		l.totals.unknown.Add(1)
	}
	return o
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

func (d *Dispatcher) logPause(err error) {
	class, log := ClassOf(err).String(), d.log().With("sink", d.Name)
	if d.summary.First(log, "sink paused, its messages stay parked", class, "") {
		log.Warn("sink paused, its messages stay parked", "class", class, "err", Shorten(err.Error(), MaxErrorText))
	}
}

func (d *Dispatcher) logResume(since time.Time) {
	log := d.log().With("sink", d.Name)
	if d.summary.First(log, "sink resumed", "", "") {
		log.Info("sink resumed", "paused_for", time.Since(since).Round(time.Millisecond))
	}
}
