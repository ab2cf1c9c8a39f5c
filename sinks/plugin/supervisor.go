package plugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
)

// supervise keeps the plugin running until ctx ends, then closes it. in runs, or is nil:
// it did not start, and why says so.
func (s *Sink) supervise(ctx context.Context, in *instance, why error) {
	defer close(s.done)
	defer s.out.settle()
	plan := &restarts{pace: s.settings.pace}
	for {
		lived, onOne := time.Duration(0), false
		if in != nil {
			why = s.watch(ctx, in)
			if ctx.Err() != nil {
				s.pause(stateClosed, core.Classify(core.Retry, errClosed))
				in.stop(s.settings.stopTimeout)
				return
			}
			s.lose(in, why)
			lived, onOne = time.Since(in.since), in.endedOnOne()
		}
		if in = s.restart(ctx, plan, why, lived, onOne); in == nil {
			s.pause(stateClosed, core.Classify(core.Retry, errClosed))
			return
		}
	}
}

// watch returns why the instance is of no use any more, or when ctx ends.
func (s *Sink) watch(ctx context.Context, in *instance) error {
	ticker := time.NewTicker(s.settings.healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.program.exited:
			return in.program.lastWords()
		case why := <-in.result:
			return why
		case <-ticker.C:
			s.out.settle()
		case <-in.suspect:
		}
		if err := in.alive(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// alive asks the plugin whether it is there.
func (in *instance) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, in.pace.check)
	defer cancel()
	err := in.ping(ctx)
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.Unavailable && in.hasEnded():
		return in.program.lastWords()
	}
	return fmt.Errorf("it did not answer the health check within %s: %s", in.pace.check, clean(err.Error()))
}

// lose takes an instance out of use, and ends what is left of it.
func (s *Sink) lose(in *instance, why error) {
	in.condemned.Store(true) // nobody may begin a call that will surely fail
	s.pause(stateRestarting, classified(why))
	s.mu.Lock()
	s.lastExit = clean(oneLine(why))
	s.mu.Unlock()
	in.end()
}

// restart tries until an instance runs, which it returns, or ctx ends: nil.
func (s *Sink) restart(ctx context.Context, plan *restarts, why error, lived time.Duration, onOne bool) *instance {
	for {
		s.tell(plan, why, lived, onOne)
		if !sleep(ctx, plan.wait) {
			return nil
		}
		in, err := s.start(ctx)
		if err == nil {
			s.run(in)
			s.log.Info("plugin is running again", "pid", in.program.pid())
			return in
		}
		if ctx.Err() != nil {
			return nil
		}
		why, lived, onOne = err, 0, false
	}
}

// start is what has to happen before a plugin can be called.
func (s *Sink) start(ctx context.Context) (*instance, error) {
	in, err := launch(ctx, s.settings, s.out)
	if err != nil {
		return nil, err
	}
	if err := in.configure(ctx, s.settings); err != nil {
		in.end()
		return nil, err
	}
	return in, nil
}

// tell plans the next try and says so, to the log and to those who deliver. What
// is quarantined is logged once.
func (s *Sink) tell(plan *restarts, why error, lived time.Duration, onOne bool) {
	before := plan.quarantined && lived < plan.calm
	plan.wait = plan.ended(time.Now(), lived, onOne)
	down := classified(why)
	state := stateRestarting
	switch {
	case plan.quarantined:
		state = stateQuarantined
		down = core.Classify(core.ClassOf(down), fmt.Errorf("the plugin is quarantined, it keeps failing: %w", why))
	case core.ClassOf(down) == core.Blocked:
		state = stateRefused
	}
	s.pause(state, down)
	switch {
	case before:
		s.log.Debug("plugin exited again", "err", clean(oneLine(why)))
	case plan.quarantined:
		s.log.Error("plugin exited too often, it is quarantined", "err", clean(oneLine(why)), "retry_every", plan.calm)
	case !s.ran():
		s.log.Error("plugin failed to start, its sink is blocked and its messages wait", "err", clean(oneLine(why)), "retry_in", plan.wait)
	default:
		s.log.Warn("plugin exited", "err", clean(oneLine(why)), "restart_in", plan.wait)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
