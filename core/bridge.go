package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Input is a listener or a source.
type Input struct {
	Name string // as it appears in errors, such as "HTTP listener"
	// Run serves until ctx ends, then finishes the work in progress and returns. An
	// error ends the Bridge.
	Run func(ctx context.Context) error
}

// ErrEnded is the error of accepts and changes after Bridge.Run has ended: nothing was
// stored or changed, and this Bridge will not do it. It wraps ErrUnavailable.
var ErrEnded error = &wrapped{"the bridge has ended, nothing was changed", ErrUnavailable}

// Options configures a Bridge. The zero value works.
type Options struct {
	Limits Limits // of the messages that are accepted
	// StopTimeout bounds how long listeners and sources, then calls in progress, and then
	// dispatchers may take to stop; default 30 s.
	StopTimeout time.Duration
	Observer    Observer // is told what happens to messages
}

const defaultStopTimeout = 30 * time.Second

// Bridge wires a store, the dispatchers of its sinks and an Interceptor, whose methods it
// has. A program that has a Bridge inside calls Accept directly; listeners and sources are
// given the Interceptor. Sinks, limits and inputs can be changed while it runs: see Apply,
// StartInputs and StopInputs.
type Bridge struct {
	*Interceptor
	stopTimeout time.Duration
	ran         atomic.Bool
	started     chan struct{}

	changing    chan struct{} // has room for who makes a change, and guards what follows
	running     context.Context
	ended       bool
	front, back *stage        // nil before Run
	waiting     []Input       // for Run
	open        []*Dispatcher // whose sinks are to be closed
}

// NewBridge returns a Bridge that parks messages for the given sinks in store, and starts
// nothing. Messages can be accepted at once; they are delivered while Run runs.
func NewBridge(store Store, options Options, sinks ...*Dispatcher) *Bridge {
	return &Bridge{Interceptor: newInterceptor(store, options, sinks), open: sinks, running: context.Background(), changing: make(chan struct{}, 1),
		stopTimeout: cmp.Or(max(options.StopTimeout, 0), defaultStopTimeout), started: make(chan struct{})}
}

// Started returns a channel that is closed when Run has started every part, or has found
// that it can't. Ready reports whether the store works.
func (b *Bridge) Started() <-chan struct{} { return b.started }

// Run delivers messages until ctx ends or a part fails. It then stops the listeners and
// sources; accepts no more, see ErrEnded; waits until batches in flight are settled and
// buckets are handed over; and closes the sinks and the store. What is not delivered by
// then stays in the store, which for one in memory means that it is lost with the process.
// Run returns the errors of all parts; parts that have not stopped within
// Options.StopTimeout are reported as an error and not waited for. Two sinks of one name,
// and a Dispatcher without a Sink, are such an error. Run can be called once; a second
// call returns an error and changes nothing.
func (b *Bridge) Run(ctx context.Context, inputs ...Input) error {
	if b.ran.Swap(true) {
		return errors.New("the bridge has been run already, and can be run once; make a new one with a new store and new sinks")
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	err := b.start(ctx, fail, inputs)
	close(b.started)
	<-ctx.Done()
	b.changing <- struct{}{}
	b.ended = true
	<-b.changing
	err = errors.Join(err, b.front.stop(b.stopTimeout), b.endCalls(context.Background(), b.setup.Load()), b.back.stop(b.stopTimeout))
	return errors.Join(err, b.close())
}

func (b *Bridge) start(ctx context.Context, fail context.CancelCauseFunc, inputs []Input) error {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	b.running = ctx
	b.front, b.back = newStage(ctx, "listeners and sources", fail), newStage(ctx, "dispatchers", fail)
	if err := checkSinks(b.open); err != nil {
		fail(err)
		return err
	}
	for _, d := range b.open {
		b.serve(d.Name)
	}
	for _, input := range append(b.waiting, inputs...) {
		b.front.run(input.Name, input.Run)
	}
	return nil
}

// serve has the store serve a sink.
func (b *Bridge) serve(sink string) {
	b.back.run(servePart(sink), func(ctx context.Context) error {
		return b.store.Serve(ctx, sink, func(ctx context.Context, bucket Bucket) error { return b.deliver(ctx, sink, bucket) })
	})
}

func servePart(sink string) string { return "serve sink " + sink }

// deliver runs the sink's Dispatcher over a bucket, and the next one when Apply has put
// that in its place: the bucket stays owned meanwhile.
func (b *Bridge) deliver(ctx context.Context, sink string, bucket Bucket) error {
	for ctx.Err() == nil {
		d := b.setup.Load().sinks[sink]
		if d == nil { // it is being removed
			<-ctx.Done()
			return nil
		}
		if !d.loops.begin() {
			continue // another has taken its place
		}
		err := d.runUntilReplaced(ctx, bucket)
		d.loops.group.Done()
		if err != nil {
			return err
		}
	}
	return nil
}

// endCalls waits for the calls that began with s, and lets no more begin.
func (b *Bridge) endCalls(ctx context.Context, s *setup) error {
	if !s.calls.end(ctx, b.stopTimeout) {
		return fmt.Errorf("calls of the store and checks of sinks did not end within %s", b.stopTimeout)
	}
	return nil
}

func (b *Bridge) close() error {
	err := b.closeSinks(context.Background(), b.open)
	if closeErr := b.store.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close store: %w", closeErr))
	}
	return err
}

// checkSinks finds what would fail message by message: names that no message can have,
// and nothing to deliver to.
func checkSinks(sinks []*Dispatcher) error {
	seen := make(map[string]bool, len(sinks))
	for _, d := range sinks {
		if err := CheckSinkName(d.Name); err != nil {
			return fmt.Errorf("sink %q: %w", d.Name, err)
		}
		if seen[d.Name] {
			return fmt.Errorf("sink %s: two sinks have this name; give each its own", d.Name)
		}
		if d.Sink == nil {
			return fmt.Errorf("sink %s: the Dispatcher has no Sink; set it", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}
