package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// calls are counted until there are to be no more of them.
type calls struct {
	mu    sync.RWMutex // with it, no call is added to group after end has begun to wait
	ended bool
	group sync.WaitGroup
}

// begin reports whether a call may begin, which ends with group.Done.
func (c *calls) begin() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.ended {
		c.group.Add(1)
	}
	return !c.ended
}

// end lets no more calls begin, and reports whether those in progress ended within
// timeout and before ctx.
func (c *calls) end(ctx context.Context, timeout time.Duration) bool {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	return joined(ctx, &c.group, timeout)
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
	parts  []*part // that have not ended
	errs   []error
}

// part is a part of a stage, which can also be stopped alone.
type part struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup // of itself
	err    error          // how it ended, if it was stopped alone
}

func newStage(ctx context.Context, name string, fail context.CancelCauseFunc) *stage {
	s := &stage{name: name, fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// run starts a part; if it fails, or ends before it is told to, all is stopped. It begins
// when the parts of its name that were stopped alone have ended.
func (s *stage) run(name string, work func(context.Context) error) {
	p := &part{name: name}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := slices.DeleteFunc(slices.Clone(s.parts), func(b *part) bool { return b.name != name || b.ctx.Err() == nil })
	s.parts = append(s.parts, p)
	p.group.Add(1)
	s.group.Go(func() {
		defer p.group.Done()
		for _, b := range before {
			b.group.Wait()
		}
		var err error
		if p.ctx.Err() == nil {
			err = work(p.ctx)
		}
		s.left(p, err)
	})
}

// left notes that a part has ended.
func (s *stage) left(p *part, err error) {
	told := p.ctx.Err() != nil
	p.cancel()
	if err == nil && !told {
		err = errors.New("ended by itself")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(one *part) bool { return one == p })
	if err == nil || told && errors.Is(err, context.Canceled) {
		return
	}
	err = fmt.Errorf("%s: %w", p.name, err)
	if told && s.ctx.Err() == nil {
		p.err = err // for who has stopped it
		return
	}
	s.errs = append(s.errs, err)
	s.fail(err)
}

// tell tells the parts of a name that they are to stop.
func (s *stage) tell(name string) (told []*part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.name == name && p.ctx.Err() == nil {
			p.cancel()
			told = append(told, p)
		}
	}
	return told
}

// await waits for parts that were told to stop.
func await(ctx context.Context, parts []*part, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	var err error
	for _, p := range parts {
		if joined(ctx, &p.group, time.Until(deadline)) {
			err = errors.Join(err, p.err)
		} else {
			err = errors.Join(err, fmt.Errorf("%s did not stop within %s", p.name, timeout))
		}
	}
	return err
}

// stop ends the parts and waits for them.
func (s *stage) stop(timeout time.Duration) error {
	s.cancel()
	var err error
	if !joined(context.Background(), &s.group, timeout) {
		err = fmt.Errorf("%s did not stop within %s", s.name, timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.errs, err)...)
}

// joined waits for group, and reports whether it is done within timeout and before ctx.
func joined(ctx context.Context, group *sync.WaitGroup, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
