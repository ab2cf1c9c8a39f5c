package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// blamed is the error of a message that failed alone while others passed. That spends its
// last attempt only if it has happened again.
type blamed struct {
	error
	again bool
}

// Unwrap returns what the sink said.
func (b blamed) Unwrap() error { return b.error }

// uncertain is the error of a message that may have been sent, in a call that failed
// alone without others having passed.
type uncertain struct{ error }

// Unwrap returns what the sink said.
func (u uncertain) Unwrap() error { return u.error }

// isTrouble reports whether a call failed in a way that is said of the sink, though one
// of its messages may be the cause.
func isTrouble(err error) bool {
	if err == nil || oneSpoilsAll(err) {
		return false
	}
	if each, ok := errors.AsType[BatchError](err); ok {
		return len(each) == 1 && each[0] != nil && ClassOf(each[0]) == Blocked
	}
	return true
}

// lone deals with trouble in a call of one message: it is the message's own if others
// passed while it failed.
func (l *bucketLoop) lone(m *Message, err error, call uint64, suspect bool) error {
	l.evidence.failedAlone(m.ID, call, err)
	crashed := errors.Is(err, ErrCrashed) // which another bucket's message may have done
	fault, again := crashed && suspect, true
	if !crashed {
		fault, again = l.evidence.atFault(m.ID, call, err, l.final(m))
	}
	if fault {
		return BatchError{blamed{ofMessage(err), again}}
	}
	return err
}

// ofMessage is the error of a message that is at fault: it spends attempts, whatever
// its class says of the sink.
func ofMessage(err error) error {
	if each, ok := errors.AsType[BatchError](err); ok && len(each) == 1 {
		err = each[0]
	}
	if ClassOf(err) == Blocked {
		return Classify(Retry, err)
	}
	return err
}

// trial delivers a batch piece by piece, to find the messages that make it fail.
type trial struct {
	*bucketLoop
	batch    []*Message
	results  BatchError
	calls    []uint64 // in which a message failed alone
	trailing []int    // the messages that failed alone since the last that passed
	passed   bool     // the sink has taken something, or said something of a message
	failures int      // calls in a row that failed
	err      error    // of the first that did
	until    time.Time
}

// maxFailures is how many calls in a row may fail in a trial: more than it takes to
// find a few messages in a batch of MaxTake, and few enough for a sink that goes down
// meanwhile.
const maxFailures = 24

func (l *bucketLoop) newTrial(batch []*Message) *trial {
	t := &trial{bucketLoop: l, batch: batch, results: make(BatchError, len(batch)), calls: make([]uint64, len(batch)),
		until: time.Now().Add(l.timeout())}
	for n := range batch {
		t.results[n] = ErrNotTried
	}
	return t
}

// isolate delivers a batch that has failed as a whole, with nothing sent. It tries the
// first message and, if that fails, another. If both fail, that is taken for trouble of
// the sink and returned. Else the rest goes out in parts that are halved where they
// fail. So a sink that is down costs three calls a batch.
func (l *bucketLoop) isolate(ctx context.Context, batch []*Message) error {
	t := l.newTrial(batch)
	t.deliver(ctx, []int{0})
	if !t.passed {
		t.deliver(ctx, []int{another(batch)})
	}
	if t.passed {
		t.deliver(ctx, t.untried())
	}
	return t.result()
}

// oneByOne delivers a batch in its order, and each message alone that was sent before in
// a batch of unknown outcome.
func (l *bucketLoop) oneByOne(ctx context.Context, batch []*Message) error {
	t := l.newTrial(batch)
	for at := t.untried(); len(at) > 0; {
		n := max(1, l.evidence.sure(batch[at[0]:]))
		t.deliver(ctx, at[:n])
		at = at[n:]
	}
	return t.result()
}

// sameKeyProbe is which of several probes in a row goes to another message than the
// first, where all have one key.
const sameKeyProbe = 8

// probe delivers one message of a batch: any that is the first of its key, as the first
// of all may be the very one that the sink can't take.
func (l *bucketLoop) probe(ctx context.Context, batch []*Message) error {
	t := l.newTrial(batch)
	l.probes++
	at := rand.IntN(len(batch))
	if first := firstsOfKeys(batch); len(first) > 1 || l.probes%sameKeyProbe != 0 {
		at = first[rand.IntN(len(first))]
	}
	t.deliver(ctx, []int{at})
	return t.result()
}

// another is a message to compare the first with. It has no other of its key before
// it, but if all are of one key, it is the second.
func another(batch []*Message) int {
	if first := firstsOfKeys(batch); len(first) > 1 {
		return first[1+rand.IntN(len(first)-1)]
	}
	return 1
}

// firstsOfKeys are the positions of messages that have no other of their key before
// them; the first is 0.
func firstsOfKeys(batch []*Message) (at []int) {
	seen := make(map[string]bool)
	for n, m := range batch {
		if m.Key == nil || !seen[string(m.Key)] {
			at = append(at, n)
		}
		if m.Key != nil {
			seen[string(m.Key)] = true
		}
	}
	return at
}

func (t *trial) untried() (at []int) {
	for n, err := range t.results {
		if errors.Is(err, ErrNotTried) {
			at = append(at, n)
		}
	}
	return at
}

// deliver tries the messages at these positions, and their halves if that fails.
func (t *trial) deliver(ctx context.Context, at []int) {
	if len(at) == 0 || t.failures >= maxFailures || ctx.Err() != nil || time.Now().After(t.until) {
		return
	}
	part := make([]*Message, len(at))
	for n, position := range at {
		part[n] = t.batch[position]
	}
	call, err := t.call(ctx, part)
	each, ok := errors.AsType[BatchError](err)
	switch {
	case err == nil:
		t.note(at, make(BatchError, len(at)))
	case len(at) == 1 && isTrouble(err):
		t.results[at[0]], t.calls[at[0]] = err, call
		t.trailing = append(t.trailing, at[0])
		t.evidence.failedAlone(t.batch[at[0]].ID, call, err)
		if t.fail(err); ClassOf(err) == Unknown {
			t.failures = maxFailures // nothing more goes to a sink in such trouble
		}
	case ok && len(each) == len(at):
		t.note(at, each)
	case len(at) == 1:
		t.note(at, spread(err, 1))
	case ClassOf(err) == Unknown && !errors.Is(err, errPanic):
		for _, position := range at {
			t.results[position] = uncertain{err}
		}
		t.evidence.doubt(part)
		t.failures = maxFailures // nothing more goes to a sink in such trouble
	default:
		t.fail(err)
		t.deliver(ctx, at[:len(at)/2])
		t.deliver(ctx, at[len(at)/2:])
		t.afterPanic(err, at)
	}
}

// afterPanic is afterPanic for the messages at these positions.
func (t *trial) afterPanic(err error, at []int) {
	if !errors.Is(err, errPanic) {
		return
	}
	for _, position := range at {
		if t.results[position] != nil && t.calls[position] > 0 {
			t.results[position], t.calls[position] = uncertain{err}, 0
		}
		t.results[position] = afterPanic(err, BatchError{t.results[position]})[0]
	}
}

func (t *trial) fail(err error) {
	t.failures++
	if t.err == nil {
		t.err = err
	}
}

// note takes the sink's word for messages.
func (t *trial) note(at []int, results BatchError) {
	for n, position := range at {
		t.results[position] = results[n]
	}
	t.passed, t.failures, t.trailing = true, 0, nil
}

// maxTrailing is of how many messages at the end of a trial it is believed that they
// fail of themselves: fewer than fail when the sink goes down in the midst of it.
const maxTrailing = 8

// result is what became of the batch: who failed alone while others passed is at fault,
// and nobody else.
func (t *trial) result() error {
	known := t.passed
	for n, err := range t.results {
		if t.calls[n] == 0 {
			continue
		}
		fault, again := t.blames(n, err)
		switch {
		case fault:
			t.results[n], known = blamed{ofMessage(err), again}, true
		case ClassOf(err) == Unknown:
			t.results[n], known = uncertain{err}, true
		default:
			t.results[n] = ErrNotTried
		}
	}
	known = known || slices.ContainsFunc(t.results, is[uncertain])
	if !known && t.err != nil {
		return t.err
	}
	return t.results
}

// blames reports whether a message is to blame that failed alone, and whether it was before.
// It is if it stood between others that passed, or is one of a few behind the last, which
// is not enough for its last attempt.
func (t *trial) blames(n int, err error) (fault, again bool) {
	m := t.batch[n]
	few := len(t.trailing) <= maxTrailing && !t.final(m)
	switch {
	case errors.Is(err, ErrCrashed):
		return false, false
	case t.passed && (few || !slices.Contains(t.trailing, n)):
		return true, t.evidence.isToBlame(m.ID, err)
	}
	return t.evidence.atFault(m.ID, t.calls[n], err, t.final(m))
}
