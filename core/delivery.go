package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// deliverGrace is how long after its deadline a Deliver may still return before
// it is left to itself.
const deliverGrace = time.Second

// errPanic marks a Deliver that panicked.
var errPanic = errors.New("sink panicked")

// deliver calls the sink and, where one message may have spoilt the others,
// calls it again with less until the culprit stands alone. A probe delivers one
// message.
func (l *bucketLoop) deliver(ctx context.Context, batch []*Message, probe bool) error {
	if probe && len(batch) > 1 {
		return l.probe(ctx, batch)
	}
	if len(batch) > 1 && l.evidence.sure(batch) < len(batch) {
		return l.oneByOne(ctx, batch)
	}
	suspect := l.evidence.suspects(batch)
	call, err := l.call(ctx, batch)
	switch {
	case len(batch) == 1 && isTrouble(err):
		return l.lone(batch[0], err, call, suspect)
	case len(batch) > 1 && oneSpoilsAll(err):
		half := len(batch) / 2
		first, second := l.deliver(ctx, batch[:half], false), l.deliver(ctx, batch[half:], false)
		return afterPanic(err, append(spread(first, half), spread(second, len(batch)-half)...))
	case isTrouble(err) && ClassOf(err) != Unknown:
		return l.isolate(ctx, batch)
	}
	return err
}

// afterPanic has what was tried again after a panic spend the attempt in any case: a
// sink that panics may have sent all of a batch.
func afterPanic(err error, results BatchError) BatchError {
	if !errors.Is(err, errPanic) {
		return results
	}
	for n, result := range results {
		class := ClassOf(result)
		if result != nil && (errors.Is(result, ErrNotTried) || class == Blocked || class == TopicBlocked) {
			results[n] = uncertain{err}
		}
	}
	return results
}

// oneSpoilsAll reports whether a batch failed as a whole in a way that is said of
// single messages only.
func oneSpoilsAll(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[BatchError](err); ok {
		return false
	}
	class := ClassOf(err)
	return errors.Is(err, errPanic) || class == Permanent || class == TopicBlocked
}

// spread makes one result a message out of err.
func spread(err error, n int) BatchError {
	if batch, ok := errors.AsType[BatchError](err); ok && len(batch) == n {
		return batch
	}
	results := make(BatchError, n)
	for i := range results {
		results[i] = err
	}
	return results
}

// call makes one call of the sink, and returns its number among the sink's calls. Other
// calls continue at the same time, unless its message is a suspect.
func (l *bucketLoop) call(ctx context.Context, batch []*Message) (uint64, error) {
	call := l.evidence.begin(l.evidence.suspects(batch))
	if context.Cause(ctx) == ErrLeaseLost {
		l.evidence.end(call, false)
		return 0, ErrLeaseLost // another owner may have sent it already
	}
	if l.called.IsZero() {
		l.called = time.Now()
	}
	err := l.within(ctx, batch)
	l.returned = time.Now()
	each, ok := errors.AsType[BatchError](err)
	l.evidence.end(call, err == nil || ok && len(each) == len(batch) && slices.Contains(each, nil))
	return call, err
}

// within is one Deliver within its deadline. It ends early only if the lease is
// lost: a bucket that is merely wanted back may finish what is in flight.
func (l *bucketLoop) within(ctx context.Context, batch []*Message) error {
	callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout())
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == ErrLeaseLost {
			cancel()
		}
	})()
	result, returned := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(returned)
		result <- callSink(callCtx, l.Sink, batch)
	}()
	select {
	case err := <-result:
		return atDeadline(callCtx, err)
	case <-callCtx.Done():
	}
	grace := time.NewTimer(deliverGrace)
	defer grace.Stop()
	select {
	case err := <-result:
		return atDeadline(callCtx, err)
	case <-grace.C:
		l.stuck = returned
		return Classify(Unknown, fmt.Errorf("sink did not return within %s: %w", l.timeout()+deliverGrace, context.Cause(callCtx)))
	}
}

// callSink turns a panic into an error, so that one message can't take the
// bridge down.
func callSink(ctx context.Context, sink Sink, batch []*Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Classify(Unknown, fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack()))
		}
	}()
	return sink.Deliver(ctx, batch)
}

// atDeadline gives a bare context error the class it deserves: the sink was
// interrupted, so the messages may have been sent.
func atDeadline(ctx context.Context, err error) error {
	_, classed := errors.AsType[*SinkError](err)
	_, perMessage := errors.AsType[BatchError](err)
	if err != nil && ctx.Err() != nil && !classed && !perMessage {
		return Classify(Unknown, err)
	}
	return err
}
