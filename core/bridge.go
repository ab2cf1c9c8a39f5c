package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Input is a listener or a source.
type Input struct {
	Name string // as it appears in errors, such as "HTTP listener"
	// Run serves until ctx ends, then finishes the work in progress and returns. An
	// error ends the Bridge.
	Run func(ctx context.Context) error
}

// Bridge runs the listeners and sources, the dispatchers and the store.
type Bridge struct {
	Store  Store
	Sinks  []*Dispatcher
	Inputs []Input
	// StopTimeout bounds how long listeners and sources, and then dispatchers, may take
	// to stop; default 30 s.
	StopTimeout time.Duration
	Log         *slog.Logger // nil discards
}

const defaultStopTimeout = 30 * time.Second

// Run works until ctx ends or a part fails. It then stops the listeners and sources, waits
// until batches in flight are settled and buckets are handed over, and closes the sinks and
// the store. It returns the errors of all parts; parts that have not stopped within
// StopTimeout are reported as an error and not waited for. Call Run once.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	inputs, dispatchers := newStage(ctx, "listeners and sources", fail), newStage(ctx, "dispatchers", fail)
	for _, d := range b.Sinks {
		dispatchers.run("serve sink "+d.Name, func(ctx context.Context) error {
			return b.Store.Serve(ctx, d.Name, d.Run)
		})
	}
	for _, input := range b.Inputs {
		inputs.run(input.Name, input.Run)
	}
	<-ctx.Done()
	err := inputs.stop(b.stopTimeout())
	err = errors.Join(err, dispatchers.stop(b.stopTimeout()))
	for _, d := range b.Sinks {
		d.summary.Flush()
		if closeErr := d.Sink.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink %s: %w", d.Name, closeErr))
		}
	}
	if closeErr := b.Store.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close store: %w", closeErr))
	}
	return err
}

func (b *Bridge) stopTimeout() time.Duration {
	if b.StopTimeout > 0 {
		return b.StopTimeout
	}
	return defaultStopTimeout
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
	joined := make(chan struct{})
	go func() { s.group.Wait(); close(joined) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-joined:
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.Join(append(s.errs, fmt.Errorf("%s did not stop within %s", s.name, timeout))...)
	}
	return errors.Join(s.errs...)
}
