package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Reader is a source, as the packages of brokers make it.
type Reader interface {
	// Run reads until ctx ends. It may be called again when it has returned.
	Run(ctx context.Context) error
	Report() core.SourceReport
}

// Supervisor runs a source so that its trouble stays its own. Set its fields
// before Run and do not change them after.
type Supervisor struct {
	Reader
	Name string
	Log  *slog.Logger

	mu      sync.Mutex
	failure error // why it does not run; nil: it does
	since   time.Time
	stopped bool // permanently
}

// The pauses before a source that has failed is run again.
const (
	firstRestart   = time.Second
	longestRestart = time.Minute
)

var errEnded = errors.New("ended by itself")

// Run runs the source until ctx ends, and returns what it returns then. If the
// source fails before, it is run again after a pause, but for a *RefusedError: the
// record would be refused again.
func (s *Supervisor) Run(ctx context.Context) error {
	pause := firstRestart
	for ctx.Err() == nil {
		began := time.Now()
		err := s.Reader.Run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			err = errEnded
		}
		if _, refused := errors.AsType[*RefusedError](err); refused {
			s.note(err, true)
			s.Log.Error("source has stopped, everything else continues; remove the record and restart the bridge, or set a target for such records and reload the configuration",
				"source", s.Name, "err", core.Shorten(err.Error(), 2*core.MaxErrorText))
			<-ctx.Done()
			break
		}
		if time.Since(began) > longestRestart {
			pause = firstRestart
		}
		s.note(err, false)
		s.Log.Error("source has failed and will be restarted", "source", s.Name, "in", pause, "err", core.Shorten(err.Error(), 2*core.MaxErrorText))
		Sleep(ctx, pause)
		s.note(nil, false)
		pause = min(2*pause, longestRestart)
	}
	return nil
}

func (s *Supervisor) note(failure error, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.since, s.stopped = failure, time.Now(), stopped
}

// Report is the source's, and reports if it does not run.
func (s *Supervisor) Report() core.SourceReport {
	r := s.Reader.Report()
	r.Source = s.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		r.Trouble, r.Since, r.Stopped = core.Shorten(s.failure.Error(), 2*core.MaxErrorText), s.since, s.stopped
	}
	return r
}
