package suite

import (
	"context"
	"errors"
	"sync"

	"github.com/delaybridge/delaybridge/core"
)

func missingTopic(e *env)    { e.refused("missing topic", e.kit.MissingTopic) }
func noRights(e *env)        { e.refused("no rights", e.kit.NoRights) }
func negativeConfirm(e *env) { e.refused("negative confirm", e.kit.NegativeConfirm) }
func unroutable(e *env)      { e.refused("unroutable", e.kit.Unroutable) }

// refused sends a message that is refused, alone and between two that are not,
// which must arrive. Twice, as a sink may learn from the first time.
func (e *env) refused(name string, refusal *Refusal[T]) {
	e.Helper()
	if refusal == nil {
		e.lacks(name)
	}
	sink, good := e.openWith(refusal.Open), e.kit.NewTopic(e.T)
	bad := e.refusedTopic(refusal)
	for range 2 {
		results := e.deliverWithin(e.ample, sink, refusal.message(e, bad))
		e.wantClass(results[0], refusal.Class)
		batch := []*core.Message{e.message(good, "before"), refusal.message(e, bad), e.message(good, "after")}
		e.oneSpoils(sink, batch, 1, refusal.Class)
	}
	e.audit(good)
}

func (e *env) refusedTopic(refusal *Refusal[T]) string {
	if refusal.Topic == nil {
		return e.kit.NewTopic(e.T)
	}
	return refusal.Topic(e.T)
}

func (r *Refusal[T]) message(e *env, topic string) *core.Message {
	m := e.message(topic, "refused")
	if r.Prepare != nil {
		r.Prepare(m)
	}
	return m
}

// loginRefused checks that a refused login is the sink's trouble, not that of
// the messages.
func loginRefused(e *env) {
	refusal := e.kit.LoginRefused
	if refusal == nil {
		e.lacks("login refused")
	}
	sink := e.openWith(refusal.Open)
	topic := e.refusedTopic(refusal)
	ctx, cancel := context.WithTimeout(e.Context(), e.ample)
	defer cancel()
	err := e.once(ctx, sink, e.messages(topic, 3))
	e.wantClass(err, refusal.Class)
	if _, each := errors.AsType[core.BatchError](err); each {
		e.Errorf("a result for each message, want one error for the sink: %v", err)
	}
}

// resultEach sends one batch with all the refusals that the kit knows among
// good messages.
func resultEach(e *env) {
	sink, good := e.open(), e.kit.NewTopic(e.T)
	batch, want := e.messages(good, 5), map[int]core.Class{}
	add := func(m *core.Message, class core.Class) {
		want[len(batch)] = class
		batch = append(append(batch, m), e.messages(good, 3)...)
	}
	for _, refusal := range []*Refusal[T]{e.kit.MissingTopic, e.kit.NoRights, e.kit.NegativeConfirm, e.kit.Unroutable} {
		if refusal != nil && refusal.Open == nil {
			add(refusal.message(e, e.refusedTopic(refusal)), refusal.Class)
		}
	}
	if e.kit.MaxBody > 0 {
		add(e.bodyOf(good, e.kit.MaxBody+1), core.Permanent)
	}
	if len(want) == 0 {
		e.lacks("missing topic, no rights, negative confirm, unroutable or max body")
	}
	for i, err := range e.deliverWithin(e.ample, sink, batch...) {
		if class, bad := want[i]; bad {
			e.wantClass(err, class)
		} else if err != nil {
			e.Errorf("message %d is good, but fails: %v", i, err)
		}
	}
	e.audit(good)
}

const (
	goodBatches = 20
	// maxHeld is how many of them may have met a machine that stood still: the
	// trouble of another topic would be met by most.
	maxHeld = 3
)

// topicsApart delivers to a good topic while another is in trouble.
func topicsApart(e *env) {
	if e.kit.MissingTopic == nil && e.kit.Faults.StallTopic == nil {
		e.lacks("missing topic or stall topic")
	}
	sink, good := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(good, "first"))
	bad := ""
	if e.kit.Faults.StallTopic != nil {
		bad = e.kit.NewTopic(e.T)
		e.fault("stall topic", func(t T) func() { return e.kit.Faults.StallTopic(t, bad) })
	} else {
		bad = e.refusedTopic(e.kit.MissingTopic)
	}
	var trouble sync.WaitGroup
	ctx, stop := context.WithTimeout(e.Context(), e.ample)
	defer stop()
	for range 4 {
		trouble.Go(func() {
			for ctx.Err() == nil {
				e.deliver(ctx, sink, e.messages(bad, 10)...)
			}
		})
	}
	held := 0
	for range goodBatches {
		// Trouble that others wait for lasts longer than this deadline.
		if e.insist(e.ample/2, sink, e.messages(good, 10)) > 0 {
			held++
		}
	}
	if held > maxHeld {
		e.Errorf("%d of %d batches to a good topic, while another is in trouble, had to be sent again", held, goodBatches)
	}
	stop()
	trouble.Wait()
	e.audit(good)
}
