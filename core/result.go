package core

import (
	"errors"
	"math/rand/v2"
	"time"
)

// classify turns the sink's answer about batch into outcomes, and opens or closes the
// circuit breaker. now is the store's clock.
func (l *bucketLoop) classify(batch []*Message, err error, now time.Time, p permit) []Outcome {
	if err == nil {
		p.succeeded(l)
		return l.delivered(batch, now)
	}
	if results, ok := errors.AsType[BatchError](err); ok && len(results) == len(batch) {
		return l.classifyEach(batch, results, now, p)
	}
	return l.classifyBatch(batch, err, now, p)
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

// classifyBatch handles an error of the whole batch. If it is the sink's, the breaker
// opens, and no message is at fault.
func (l *bucketLoop) classifyBatch(batch []*Message, err error, now time.Time, p permit) []Outcome {
	switch class := ClassOf(err); {
	case errors.Is(err, errPanic), class == Permanent, class == TopicBlocked:
		return l.classifyEach(batch, spread(err, len(batch)), now, p)
	case class == Unknown:
		p.failed(l, err)
		return l.unknownAll(batch, err)
	default:
		p.failed(l, err)
		return nil
	}
}

// unknownAll sends a batch back that may have been sent. The attempt counts, as
// consumers see it, but trouble of the sink never spends a message's last one:
// where there is but one, a message may be sent more often than MaxAttempts.
func (l *bucketLoop) unknownAll(batch []*Message, err error) []Outcome {
	if errors.Is(err, ErrCrashed) {
		l.suspect(batch, err)
	} else if len(batch) > 1 {
		l.evidence.doubt(batch)
	}
	outcomes := make([]Outcome, len(batch))
	for n, m := range batch {
		outcomes[n] = l.unknown(m, err)
	}
	return outcomes
}

func (l *bucketLoop) unknown(m *Message, err error) Outcome {
	policy := l.policy(m)
	l.totals.unknown.Add(1)
	return Outcome{ID: m.ID, State: Retrying, Reason: reasonOf(err), Error: err.Error(),
		After: policy.wait(m.Attempt), Attempts: min(m.Attempt, max(1, policy.MaxAttempts-1))}
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

// suspect has messages that were cut off by a crash of the sink tried one at a time.
func (l *bucketLoop) suspect(batch []*Message, err error) {
	l.evidence.suspect(batch)
	ids := make([]string, 0, min(len(batch), maxLoggedIDs))
	for _, m := range batch[:cap(ids)] {
		ids = append(ids, m.ID)
	}
	l.log().Warn("sink crashed in a delivery, whose messages are tried one at a time from now on", "sink", l.Name,
		"bucket", l.bucket.String(), "messages", len(batch), "message_ids", ids, "err", Shorten(err.Error(), MaxErrorText))
}

// maxLoggedIDs bounds the ids in one line of the log.
const maxLoggedIDs = 20

// classifyEach handles a result for each message.
func (l *bucketLoop) classifyEach(batch []*Message, results BatchError, now time.Time, p permit) []Outcome {
	outcomes := make([]Outcome, 0, len(batch))
	var trouble error // of the sink
	var suspects []*Message
	answered := false // of a message
	for n, m := range batch {
		switch err := results[n]; {
		case err == nil:
			outcomes, answered = append(outcomes, l.confirm(m, now)), true
		case errors.Is(err, ErrNotTried):
		case is[blamed](err):
			outcomes = append(outcomes, l.toBlame(m, err, now))
		case errors.Is(err, ErrCrashed):
			suspects, trouble = append(suspects, m), err
		case is[uncertain](err):
			outcomes, trouble = append(outcomes, l.unknown(m, err)), err
		case ClassOf(err) == Blocked:
			trouble = err
		default:
			outcomes, answered = append(outcomes, l.failed(m, err, now)), true
		}
	}
	if len(suspects) > 0 {
		outcomes = append(outcomes, l.unknownAll(suspects, trouble)...)
	}
	switch {
	case trouble != nil:
		p.failed(l, trouble)
	case answered:
		p.succeeded(l)
	default:
		p.release()
	}
	return outcomes
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// final tells whether this is the last attempt of a message.
func (l *bucketLoop) final(m *Message) bool { return m.Attempt >= l.policy(m).MaxAttempts }

// toBlame is failed for a message that failed alone while others passed.
func (l *bucketLoop) toBlame(m *Message, err error, now time.Time) Outcome {
	if b, _ := errors.AsType[blamed](err); b.again || !l.final(m) {
		return l.failed(m, err, now)
	}
	policy := l.policy(m)
	return Outcome{ID: m.ID, State: Retrying, Attempts: policy.MaxAttempts - 1, Reason: reasonOf(err), Error: err.Error(), After: policy.wait(m.Attempt)}
}

// failed decides what becomes of one message that was not delivered.
func (l *bucketLoop) failed(m *Message, err error, now time.Time) Outcome {
	class, policy := ClassOf(err), l.policy(m)
	o := Outcome{ID: m.ID, State: Retrying, Attempts: m.Attempt, Reason: reasonOf(err), Error: err.Error()}
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
