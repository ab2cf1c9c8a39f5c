package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// ErrNotStopped is the error of Apply and StopInputs for what was taken away and has not
// stopped within Options.StopTimeout, or has failed to: the change is made.
var ErrNotStopped = errors.New("the change is made, but not all that it took away has stopped")

// Apply replaces the limits and all sinks, also while Run runs. A Dispatcher that was
// given before remains as it is. Another one of the same name takes the place of the
// former, which first settles what is in flight; the buckets stay owned, and the counts
// continue. Its Sink may be that of the former, for new settings alone, if it is of a
// comparable type such as a pointer. The messages of a sink that is not given any more
// stay parked; calls that name it are refused. The Sinks that are no longer used are
// closed, when the calls that began before have ended.
//
// If a sink can't be used, or with ErrEnded, nothing is changed and the given Sinks stay
// open. Else Run closes them at its end. Other changes wait until Apply returns.
func (b *Bridge) Apply(limits Limits, sinks ...*Dispatcher) error {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	before := b.setup.Load()
	if err := b.mayApply(before, sinks); err != nil {
		return err
	}
	next := newSetup(limits, sinks)
	var gone []*Dispatcher
	for _, name := range before.ordered {
		if d := before.sinks[name]; next.sinks[name] != d {
			gone = append(gone, d)
		}
	}
	for _, d := range sinks {
		if former := before.sinks[d.Name]; former != d {
			d.join(b.observer, former)
			b.open = append(b.open, d)
		}
	}
	b.setup.Store(next)
	for _, d := range sinks {
		if b.back != nil && before.sinks[d.Name] == nil {
			b.serve(d.Name)
		}
	}
	return notStopped(b.endCalls(b.running, before), b.retire(gone, next))
}

func (b *Bridge) mayApply(before *setup, sinks []*Dispatcher) error {
	if b.ended || b.running.Err() != nil {
		return ErrEnded
	}
	for _, d := range sinks {
		if before.sinks[d.Name] != d && d.until != nil {
			return fmt.Errorf("sink %s: the Dispatcher was in use before; make a new one", d.Name)
		}
	}
	return checkSinks(sinks)
}

// retire waits until dispatchers have settled what they have in flight, and closes their
// sinks.
func (b *Bridge) retire(gone []*Dispatcher, next *setup) error {
	var removed []*part
	for _, d := range gone {
		d.retire()
		if next.sinks[d.Name] == nil && b.back != nil {
			removed = append(removed, b.back.tell(servePart(d.Name))...)
		}
	}
	err := await(b.running, removed, b.stopTimeout)
	ctx, cancel := context.WithTimeout(b.running, b.stopTimeout)
	defer cancel()
	for _, d := range gone {
		if !d.loops.end(ctx, b.stopTimeout) {
			err = errors.Join(err, fmt.Errorf("sink %s did not finish its deliveries within %s", d.Name, b.stopTimeout))
		}
	}
	if b.running.Err() != nil {
		return err // Run closes the sinks
	}
	b.open = slices.DeleteFunc(b.open, func(d *Dispatcher) bool { return slices.Contains(gone, d) })
	unused := slices.DeleteFunc(gone, func(d *Dispatcher) bool {
		d.summary.Flush()
		return slices.ContainsFunc(b.open, func(other *Dispatcher) bool { return sameSink(d.Sink, other.Sink) })
	})
	return errors.Join(err, b.closeSinks(b.running, unused))
}

func sameSink(a, b Sink) bool { return a != nil && reflect.ValueOf(a).Comparable() && a == b }

// closeSinks closes the sinks of some dispatchers, all at the same time.
func (b *Bridge) closeSinks(ctx context.Context, dispatchers []*Dispatcher) error {
	errs := make(chan error, len(dispatchers))
	var group sync.WaitGroup
	for n, d := range dispatchers {
		d.summary.Flush()
		if d.Sink == nil || slices.ContainsFunc(dispatchers[:n], func(other *Dispatcher) bool { return sameSink(d.Sink, other.Sink) }) {
			continue // that it has none was reported
		}
		group.Go(func() {
			if err := d.Sink.Close(); err != nil {
				errs <- fmt.Errorf("close sink %s: %w", d.Name, err)
			}
		})
	}
	var err error
	if !joined(ctx, &group, b.stopTimeout) {
		err = fmt.Errorf("sinks did not close within %s", b.stopTimeout)
	}
	for len(errs) > 0 {
		err = errors.Join(err, <-errs)
	}
	return err
}

func notStopped(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrNotStopped, err)
	}
	return nil
}

// StartInputs starts listeners and sources while Run runs, or else has Run start them.
// One waits until those of its name that StopInputs has stopped have ended. ErrEnded:
// none is started.
func (b *Bridge) StartInputs(inputs ...Input) error {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	if b.ended || b.running.Err() != nil {
		return ErrEnded
	}
	for _, input := range inputs {
		if b.front == nil {
			b.waiting = append(b.waiting, input)
		} else {
			b.front.run(input.Name, input.Run)
		}
	}
	return nil
}

// StopInputs stops the listeners and sources of these names, and returns when they have
// finished the work in progress. Their errors do not end the Bridge; see ErrNotStopped.
func (b *Bridge) StopInputs(names ...string) error {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	b.waiting = slices.DeleteFunc(b.waiting, func(input Input) bool { return slices.Contains(names, input.Name) })
	if b.front == nil {
		return nil
	}
	var told []*part
	for _, name := range names {
		told = append(told, b.front.tell(name)...)
	}
	return notStopped(await(b.running, told, b.stopTimeout))
}
