package core

import (
	"errors"
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
	l.counts().recent.late(now.Sub(m.DeliverAt))
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
		return l.unknownAll(batch, err, now)
	default:
		p.failed(l, err)
		return nil
	}
}

// unknownAll sends a batch back that may have been sent.
func (l *bucketLoop) unknownAll(batch []*Message, err error, now time.Time) []Outcome {
	if errors.Is(err, ErrCrashed) {
		l.suspect(batch, err)
	} else if len(batch) > 1 {
		l.evidence.doubt(batch)
	}
	outcomes := make([]Outcome, len(batch))
	for n, m := range batch {
		outcomes[n] = l.failed(m, uncertain{err}, now)
	}
	return outcomes
}

// suspect has messages that were cut off by a crash of the sink tried one at a time.
func (l *bucketLoop) suspect(batch []*Message, err error) {
	l.evidence.suspect(batch)
	ids := make([]string, 0, min(len(batch), maxLoggedIDs))
	for _, m := range batch[:cap(ids)] {
		ids = append(ids, m.ID)
	}
	const text = "sink crashed during a delivery, its messages are tried one at a time"
	if log := l.log().With("sink", l.Name); l.summary.First(log, text, "", ids[0]) {
		log.Warn(text, "bucket", l.bucket.String(), "messages", len(batch), "message_ids", ids, "err", Shorten(err.Error(), MaxErrorText))
	}
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
			outcomes = append(outcomes, l.failed(m, err, now))
		case errors.Is(err, ErrCrashed):
			suspects, trouble = append(suspects, m), err
		case is[uncertain](err):
			outcomes, trouble = append(outcomes, l.failed(m, err, now)), err
		case ClassOf(err) == Blocked:
			trouble = err
		default:
			outcomes, answered = append(outcomes, l.failed(m, err, now)), true
		}
	}
	if len(suspects) > 0 {
		outcomes = append(outcomes, l.unknownAll(suspects, trouble, now)...)
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
