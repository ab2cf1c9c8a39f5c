package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// Sink delivers through a plugin. See the package documentation.
type Sink struct {
	settings settings
	log      *slog.Logger
	out      *output
	stop     context.CancelFunc
	done     chan struct{} // closed when the supervisor has returned

	mu       sync.Mutex
	live     *instance // nil: down
	down     error     // why, with a class; nil while live is set
	state    string
	about    *sinkv1.DescribeResponse // as of the last start
	starts   int                      // that came to run
	lastExit string
}

// checkingSink is a Sink whose plugin says that it checks messages, or has not said
// anything yet.
type checkingSink struct{ *Sink }

var (
	_ core.Sink          = (*Sink)(nil)
	_ core.HealthChecker = (*Sink)(nil)
	_ core.Describer     = (*Sink)(nil)
	_ core.Checker       = checkingSink{}
)

// What Describe says of how the plugin is.
const (
	stateRunning     = "running"
	stateRestarting  = "restarting"
	stateRefused     = "refused"
	stateQuarantined = "quarantined"
	stateClosed      = "closed"
)

var errClosed = errors.New("the sink is closed")

// current is the instance to call, or why there is none.
func (s *Sink) current() (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return nil, s.down
	}
	return s.live, nil
}

// Deliver sends the batch to the plugin, in parts if it is large. While the plugin is
// down, it fails at once, with class Retry, or Blocked if the plugin can't run until an
// operator acts.
func (s *Sink) Deliver(ctx context.Context, batch []*core.Message) error {
	in, err := s.current()
	if err != nil {
		return err
	}
	d := &delivery{in: in, batch: batch, results: make(core.BatchError, len(batch))}
	return d.run(ctx)
}

// Check asks the plugin, in one call unless the messages are too large for that.
// One that is down, or fails in a way that says nothing of the messages, refuses
// nothing: Deliver will tell. One that does not answer in time is an error.
func (s checkingSink) Check(ctx context.Context, batch []*core.Message) error {
	in, err := s.current()
	if err != nil || !in.about.GetChecks() {
		return nil
	}
	return in.checkAll(ctx, batch)
}

// healthTimeout bounds Health, whatever its context says.
const healthTimeout = 5 * time.Second

// Health returns the health that the plugin reports or, if it reports none, an error if
// the plugin does not respond.
func (s *Sink) Health(ctx context.Context) error {
	in, err := s.current()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if !in.about.GetTellsHealth() {
		if err := in.ping(ctx); err != nil {
			return fmt.Errorf("check the plugin: %s", clean(err.Error()))
		}
		return nil
	}
	response, err := in.sink.Health(ctx, &sinkv1.HealthRequest{})
	if err != nil {
		return fmt.Errorf("get the plugin's health: %s", clean(err.Error()))
	}
	if response.GetError() != "" {
		return errors.New(clean(response.GetError()))
	}
	return nil
}

// Describe returns plugin, version, state, pid (while it runs), restarts, and last_exit
// if it has ended before.
func (s *Sink) Describe() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	details := map[string]string{
		"plugin": clean(s.about.GetName()), "version": clean(s.about.GetVersion()),
		"state": s.state, "restarts": strconv.Itoa(max(s.starts-1, 0)),
	}
	if s.live != nil {
		details["pid"] = strconv.Itoa(s.live.program.pid())
	}
	if s.lastExit != "" {
		details["last_exit"] = s.lastExit
	}
	return details
}

// Close lets the plugin finish the calls in progress and stops it. Calls that do not
// end within stop_timeout fail, with class Unknown. Close returns within stop_timeout
// and a few seconds.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.state = stateClosed
	s.mu.Unlock()
	s.stop()
	<-s.done
	return nil
}

// run makes in the instance that is called.
func (s *Sink) run(in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.down, s.about = in, nil, in.about
	s.starts++
	if s.state != stateClosed {
		s.state = stateRunning
	}
}

// ran reports whether the plugin has ever come to run.
func (s *Sink) ran() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.starts > 0 }

// pause has calls fail with why until the next run.
func (s *Sink) pause(state string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.down = nil, why
	if s.state != stateClosed {
		s.state = state
	}
}

// classified gives the reason why a plugin is down its class: what a restart
// alone can't fix is for an operator.
func classified(why error) error {
	_, setting := errors.AsType[*core.InvalidError](why)
	_, greeting := errors.AsType[*badGreeting](why)
	class := core.Retry
	if setting || greeting {
		class = core.Blocked
	}
	return core.Classify(class, fmt.Errorf("the plugin is down: %w", why))
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
