package suite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// env is one case at work: the test, the kit and the ledger of all deliveries.
type env struct {
	T
	patience
	kit    plainKit
	ledger ledger
}

// newEnv fills in what kit leaves out.
func newEnv(t T, kit plainKit) *env {
	kit = kit.withDefaults()
	return &env{T: t, patience: kit.patience, kit: kit, ledger: ledger{lines: map[string]*line{}}}
}

// open opens a sink that is closed at the end of the case at the latest.
func (e *env) open() core.Sink { return e.openWith(nil) }

func (e *env) openWith(open func(T) core.Sink) core.Sink {
	e.Helper()
	if open == nil {
		open = e.kit.Open
	}
	sink := open(e.T)
	e.Cleanup(func() { e.close(sink) })
	return sink
}

// close closes sink, which must return in time and without a panic.
func (e *env) close(sink core.Sink) {
	e.Helper()
	e.bounded("Close", e.ample, func() {
		if err := sink.Close(); err != nil {
			e.Errorf("Close: %v", err)
		}
	})
}

// bounded runs call and reports whether it returned within limit.
func (e *env) bounded(what string, limit time.Duration, call func()) bool {
	e.Helper()
	panicked, returned := any(nil), make(chan struct{})
	var stack []byte
	go func() {
		defer close(returned)
		defer func() {
			if panicked = recover(); panicked != nil {
				stack = debug.Stack()
			}
		}()
		call()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
		e.Errorf("%s did not return within %s", what, limit)
		return false
	}
	if panicked != nil {
		e.Errorf("%s panicked: %v\n%s", what, panicked, stack)
		return false
	}
	return true
}

// errNotReturned stands for the error of a Deliver that did not return.
var errNotReturned = errors.New("did not return")

// once calls Deliver as it is and returns what it said. It holds the sink to
// what is true of every call: it returns soon after ctx has ended, has a result for
// each message and leaves the messages as they are.
func (e *env) once(ctx context.Context, sink core.Sink, batch []*core.Message) error {
	e.Helper()
	before := make([]*core.Message, len(batch))
	for i, m := range batch {
		before[i] = clone(m)
	}
	err := core.Classify(core.Unknown, errNotReturned)
	result := make(chan error, 1)
	limit := e.ample
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline) + e.late
	}
	if e.bounded("Deliver", limit, func() { result <- sink.Deliver(ctx, batch) }) {
		err = <-result
		if !reflect.DeepEqual(before, batch) {
			e.Errorf("Deliver changed the messages:\n%s", changes(before, batch))
		}
	}
	if results, ok := errors.AsType[core.BatchError](err); ok && len(results) != len(batch) {
		e.Errorf("Deliver of %d messages returned a BatchError of %d", len(batch), len(results))
		err = core.Classify(core.Unknown, err)
	}
	return err
}

// changes tells the messages that are not as before.
func changes(before, after []*core.Message) string {
	var b strings.Builder
	for i, m := range before {
		if !reflect.DeepEqual(m, after[i]) {
			fmt.Fprintf(&b, "message %d before: %s\nmessage %d after:  %s\n", i, showMessage(m), i, showMessage(after[i]))
		}
	}
	return b.String()
}

// deliver calls Deliver as the engine does and returns a result for each
// message. Like the engine it calls again with halves where a batch failed as a
// whole in a way that is said of single messages only.
func (e *env) deliver(ctx context.Context, sink core.Sink, batch ...*core.Message) []error {
	e.Helper()
	err := e.once(ctx, sink, batch)
	results, each := errors.AsType[core.BatchError](err)
	class := core.ClassOf(err)
	if !each && err != nil && len(batch) > 1 && (class == core.Permanent || class == core.TopicBlocked) {
		half := len(batch) / 2
		return append(e.deliver(ctx, sink, batch[:half]...), e.deliver(ctx, sink, batch[half:]...)...)
	}
	if !each || len(results) != len(batch) {
		results = make(core.BatchError, len(batch))
		for i := range results {
			results[i] = err
		}
	}
	for i, m := range batch {
		e.ledger.note(m, results[i])
	}
	return results
}

// mustDeliver delivers in good times: all must be confirmed, though not at once.
func (e *env) mustDeliver(sink core.Sink, batch ...*core.Message) {
	e.Helper()
	e.insist(e.ample, sink, batch)
}

// insist delivers within limit: all must be confirmed. Good times have moments in
// which a machine stands still for longer than a sink waits for its target, so
// what a sink would try again is sent again, as the same attempt. It returns how
// often that was done.
func (e *env) insist(limit time.Duration, sink core.Sink, batch []*core.Message) (repeats int) {
	e.Helper()
	pauses := [...]time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, 3 * time.Second}
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	for {
		results := e.deliver(ctx, sink, batch...)
		if batch = e.unconfirmed(batch, results, repeats < len(pauses) && ctx.Err() == nil); len(batch) == 0 {
			return repeats
		}
		e.Logf("%d of %d messages are sent again", len(batch), len(results))
		pause(ctx, pauses[repeats])
		repeats++
	}
}

// unconfirmed returns the messages that are worth another try, if there is to be
// one; all others without a confirm are failures.
func (e *env) unconfirmed(batch []*core.Message, results []error, another bool) (left []*core.Message) {
	e.Helper()
	for i, err := range results {
		class := core.ClassOf(err)
		switch {
		case err == nil:
		case another && !e.Failed() && (class == core.Retry || class == core.Unknown):
			e.Logf("message %d of %d: %v", i+1, len(batch), err)
			left = append(left, batch[i])
		default:
			e.Errorf("message %d of %d: %v", i+1, len(batch), err)
		}
	}
	return left
}

// deliverWithin is deliver with a deadline.
func (e *env) deliverWithin(limit time.Duration, sink core.Sink, batch ...*core.Message) []error {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	return e.deliver(ctx, sink, batch...)
}

// untilConfirmed delivers what is left of batch again and again, as the engine
// would, until all is confirmed. Whatever fails must be worth another try.
func (e *env) untilConfirmed(limit time.Duration, sink core.Sink, batch ...*core.Message) {
	e.Helper()
	for deadline := time.Now().Add(limit); len(batch) > 0; {
		if time.Now().After(deadline) {
			e.Errorf("%d messages could not be delivered within %s", len(batch), limit)
			return
		}
		var left []*core.Message
		for i, err := range e.deliverWithin(e.kit.Timeout, sink, batch...) {
			if err != nil {
				e.transient(err)
				left = append(left, again(batch[i]))
			}
		}
		if batch = left; len(left) > 0 {
			pause(e.Context(), 20*time.Millisecond)
		}
	}
}

// pause keeps a retrying loop from spinning.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// transient checks that err does not blame a message or a topic for trouble
// that is the target's.
func (e *env) transient(err error) {
	e.Helper()
	if class := core.ClassOf(err); err != nil && class != core.Retry && class != core.Unknown {
		e.Errorf("class %s for trouble that passes, want retry or unknown: %v", class, err)
	}
}

// wantClass checks the class of one result.
func (e *env) wantClass(err error, want core.Class) {
	e.Helper()
	switch {
	case err == nil:
		e.Errorf("confirmed, want an error of class %s", want)
	case core.ClassOf(err) != want:
		e.Errorf("class %s, want %s: %v", core.ClassOf(err), want, err)
	}
}

// fault provokes a fault, which is healed at the end of the case at the latest,
// or skips the case.
func (e *env) fault(name string, provoke func(T) func()) (heal func()) {
	e.Helper()
	if provoke == nil {
		e.lacks(name)
	}
	heal = sync.OnceFunc(provoke(e.T))
	e.Cleanup(heal)
	return heal
}

// lacks skips the case for want of a capability.
func (e *env) lacks(name string) {
	e.Helper()
	e.Skipf("capability %s not declared", name)
}

// needs skips the case if c is not declared, but first sees to it that the sink
// then refuses m at accept, so that nobody's message is damaged.
func (e *env) needs(c Capability, sink core.Sink, m *core.Message) {
	e.Helper()
	if e.kit.can(c) {
		return
	}
	checker, ok := core.Ability[core.Checker](sink)
	if ok && e.check(checker, m) == nil {
		e.Errorf("capability %s is not declared, but Check lets a message pass that needs it", c)
	}
	e.lacks(string(c))
}

// check is what the sink's Check says of one message.
func (e *env) check(checker core.Checker, m *core.Message) error {
	err := checker.Check(e.Context(), []*core.Message{m})
	if each, ok := errors.AsType[core.BatchError](err); ok && len(each) == 1 {
		return each[0]
	}
	return err
}

// message makes a message with a new ID and a body that holds it.
func (e *env) message(topic, body string) *core.Message {
	now := time.Now()
	id := core.NewIDs().New(0, now)
	return &core.Message{ID: id, Sink: "sinktest", Topic: topic, Body: []byte(id + " " + body),
		DeliverAt: now.Truncate(time.Millisecond), Attempt: 1}
}

// messages makes n messages.
func (e *env) messages(topic string, n int) []*core.Message {
	batch := make([]*core.Message, n)
	for i := range batch {
		batch[i] = e.message(topic, fmt.Sprint(i))
	}
	return batch
}

// again is m as the engine would try it once more.
func again(m *core.Message) *core.Message {
	next := *m
	next.Attempt++
	return &next
}

func clone(m *core.Message) *core.Message {
	c := *m
	c.Body, c.Key = cloneBytes(m.Body), cloneBytes(m.Key)
	c.Headers = slices.Clone(m.Headers)
	for i, h := range m.Headers {
		c.Headers[i].Value = cloneBytes(h.Value)
	}
	return &c
}

// cloneBytes keeps nil and empty apart.
func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
