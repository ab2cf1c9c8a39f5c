package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
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
// given the Interceptor.
type Bridge struct {
	*Interceptor
	dispatchers []*Dispatcher
	stopTimeout time.Duration
	ran         atomic.Bool
	started     chan struct{}
}

// NewBridge returns a Bridge that parks messages for the given sinks in store, and starts
// nothing. Messages can be accepted at once; they are delivered while Run runs.
func NewBridge(store Store, options Options, sinks ...*Dispatcher) *Bridge {
	return &Bridge{Interceptor: newInterceptor(store, options, sinks), dispatchers: sinks,
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
	front, back := newStage(ctx, "listeners and sources", fail), newStage(ctx, "dispatchers", fail)
	err := checkSinks(b.dispatchers)
	if err == nil {
		b.start(front, back, inputs)
	} else {
		fail(err)
	}
	close(b.started)
	<-ctx.Done()
	err = errors.Join(err, front.stop(b.stopTimeout), b.calls.end(b.stopTimeout), back.stop(b.stopTimeout))
	return errors.Join(err, b.close())
}

func (b *Bridge) start(front, back *stage, inputs []Input) {
	for _, d := range b.dispatchers {
		back.run("serve sink "+d.Name, func(ctx context.Context) error {
			return b.store.Serve(ctx, d.Name, d.Run)
		})
	}
	for _, input := range inputs {
		front.run(input.Name, input.Run)
	}
}

func (b *Bridge) close() error {
	var err error
	for _, d := range b.dispatchers {
		d.summary.Flush()
		if d.Sink == nil { // which was reported
			continue
		}
		if closeErr := d.Sink.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink %s: %w", d.Name, closeErr))
		}
	}
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

// calls are those of the Interceptor that change the store or use a sink, until the
// Bridge ends.
type calls struct {
	mu    sync.RWMutex // with it, no call is added to group after end has begun to wait
	ended bool
	group sync.WaitGroup
}

// begin reports whether a call may use the store and the sinks until it calls group.Done.
func (c *calls) begin() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.ended {
		c.group.Add(1)
	}
	return !c.ended
}

// end lets no more calls begin, and waits for those in progress.
func (c *calls) end(timeout time.Duration) error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	if !joined(&c.group, timeout) {
		return fmt.Errorf("calls of the store and checks of sinks did not end within %s", timeout)
	}
	return nil
}

// stage is a group of parts that stop together. Its context does not end with
// its parent's: the stages stop one after the other.
type stage struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	fail   context.CancelCauseFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

func newStage(ctx context.Context, name string, fail context.CancelCauseFunc) *stage {
	s := &stage{name: name, fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// run starts a part; if it fails, or ends before it is told to, all is stopped.
func (s *stage) run(name string, part func(context.Context) error) {
	s.group.Go(func() {
		err := part(s.ctx)
		if err == nil && s.ctx.Err() == nil {
			err = errors.New("ended by itself")
		}
		if err == nil || s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		err = fmt.Errorf("%s: %w", name, err)
		s.mu.Lock()
		s.errs = append(s.errs, err)
		s.mu.Unlock()
		s.fail(err)
	})
}

// stop ends the parts and waits for them.
func (s *stage) stop(timeout time.Duration) error {
	s.cancel()
	if !joined(&s.group, timeout) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.Join(append(s.errs, fmt.Errorf("%s did not stop within %s", s.name, timeout))...)
	}
	return errors.Join(s.errs...)
}

// joined waits for group, and reports whether it is done within timeout.
func joined(group *sync.WaitGroup, timeout time.Duration) bool {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
