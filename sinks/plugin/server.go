package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// server answers the host with what the author's sink says.
type server struct {
	sinkv1.UnimplementedSinkServiceServer
	definition Definition
	log        *slog.Logger
	opening    sync.Mutex // held during Configure

	mu      sync.Mutex
	sink    core.Sink // nil before Configure
	closing bool
	calls   int           // under way
	idle    chan struct{} // closed when closing and no call is under way
}

func newServer(d Definition, log *slog.Logger) *server {
	return &server{definition: d, log: log, idle: make(chan struct{})}
}

// Describe says what the plugin is.
func (s *server) Describe(context.Context, *sinkv1.DescribeRequest) (*sinkv1.DescribeResponse, error) {
	return s.definition.describe(), nil
}

// Configure opens the sink. After faults it may be called again.
func (s *server) Configure(ctx context.Context, request *sinkv1.ConfigureRequest) (*sinkv1.ConfigureResponse, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.isOpen() {
		return nil, status.Error(codes.FailedPrecondition, "plugin is already configured")
	}
	sink, err := s.open(ctx, request.ConfigJson)
	if err != nil {
		return &sinkv1.ConfigureResponse{Faults: faultsOf(err)}, nil
	}
	s.warn(sink)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errors.Join(status.Error(codes.FailedPrecondition, "plugin is closed"), sink.Close())
	}
	s.sink = sink
	return &sinkv1.ConfigureResponse{}, nil
}

func (s *server) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink != nil
}

// open lets the context live on after the call, as the sink may have kept it.
func (s *server) open(ctx context.Context, config []byte) (core.Sink, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	if len(config) == 0 {
		config = []byte("{}")
	}
	sink, err := s.definition.Open(lasting, json.RawMessage(config))
	if err == nil && sink == nil {
		err = errors.New("the plugin's Open returned no sink")
	}
	if err != nil {
		cancel()
	}
	return sink, err
}

// warn is for an author who has forgotten half of it.
func (s *server) warn(sink core.Sink) {
	_, checks := core.Ability[core.Checker](sink)
	_, tellsHealth := core.Ability[core.HealthChecker](sink)
	if checks != s.definition.Checks {
		s.log.Warn("the plugin's definition and its sink differ", "checks", s.definition.Checks, "sink_checks", checks)
	}
	if tellsHealth != s.definition.TellsHealth {
		s.log.Warn("the plugin's definition and its sink differ", "tells_health", s.definition.TellsHealth, "sink_tells_health", tellsHealth)
	}
}

var errClosing = errors.New("plugin is closing")

// enter returns the sink for a call that must be followed by leave.
func (s *server) enter() (core.Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, errClosing
	case s.sink == nil:
		return nil, status.Error(codes.FailedPrecondition, "plugin is not configured")
	}
	s.calls++
	return s.sink, nil
}

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.closing {
		close(s.idle)
	}
}

// Deliver delivers and says what became of each message.
func (s *server) Deliver(ctx context.Context, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
	sink, err := s.enter()
	if errors.Is(err, errClosing) {
		return &sinkv1.DeliverResponse{Trouble: resultOf("", errClosing)}, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.leave()
	if len(request.Messages) == 0 {
		return &sinkv1.DeliverResponse{}, nil
	}
	batch := batchOf(request.Messages)
	ctx, cancel := answerable(ctx)
	defer cancel()
	return responseOf(batch, sink.Deliver(ctx, batch)), nil
}

// answerable ends a little before ctx does, so that what is known by then still
// reaches the host, to which all would be unknown otherwise.
func answerable(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/20, answerIn)))
}

const answerIn = 50 * time.Millisecond

// responseOf says in the protocol's words what Deliver has returned.
func responseOf(batch []*core.Message, err error) *sinkv1.DeliverResponse {
	results, each := errors.AsType[core.BatchError](err)
	switch {
	case each && len(results) != len(batch):
		err = core.Classify(core.Unknown, fmt.Errorf("%d results for %d messages, the first failure with: %w", len(results), len(batch), err))
		return &sinkv1.DeliverResponse{Trouble: resultOf("", err)}
	case err != nil && !each:
		return &sinkv1.DeliverResponse{Trouble: resultOf("", err)}
	}
	response := &sinkv1.DeliverResponse{Results: make([]*sinkv1.Result, len(batch))}
	confirmed := make([]sinkv1.Result, len(batch))
	for n, m := range batch {
		if each && results[n] != nil {
			response.Results[n] = resultOf(m.ID, results[n])
			continue
		}
		confirmed[n].Id, confirmed[n].Outcome = m.ID, sinkv1.Outcome_OUTCOME_CONFIRMED
		response.Results[n] = &confirmed[n]
	}
	return response
}

// resultOf is outcomeOf with a text that fits into the protocol.
func resultOf(id string, err error) *sinkv1.Result {
	r := outcomeOf(id, err)
	r.Error = printable(r.Error)
	return r
}

// maxReason bounds the words of others: a reply has hundreds of them.
const maxReason = 1000

func printable(text string) string {
	return strings.ToValidUTF8(core.Shorten(text, maxReason), "\ufffd")
}

// Check asks the sink about the messages.
func (s *server) Check(ctx context.Context, request *sinkv1.CheckRequest) (*sinkv1.CheckResponse, error) {
	sink, err := s.enter()
	if err != nil {
		return nil, unavailable(err)
	}
	defer s.leave()
	results := make(core.BatchError, len(request.Messages))
	if checker, ok := core.Ability[core.Checker](sink); ok {
		err := checker.Check(ctx, batchOf(request.Messages))
		each, told := errors.AsType[core.BatchError](err)
		switch {
		case told && len(each) == len(results):
			results = each
		case err != nil:
			return nil, status.Error(codes.Unknown, printable(err.Error()))
		}
	}
	response := &sinkv1.CheckResponse{Faults: make([]*sinkv1.Fault, len(results))}
	for n, err := range results {
		if response.Faults[n] = (&sinkv1.Fault{}); err != nil {
			response.Faults[n] = faultOf(err)
		}
	}
	return response, nil
}

// Health asks the sink, if it tells.
func (s *server) Health(ctx context.Context, _ *sinkv1.HealthRequest) (*sinkv1.HealthResponse, error) {
	sink, err := s.enter()
	if err != nil {
		return nil, unavailable(err)
	}
	defer s.leave()
	checker, ok := core.Ability[core.HealthChecker](sink)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "plugin does not report its health")
	}
	ctx, cancel := answerable(ctx)
	defer cancel()
	if err := checker.Health(ctx); err != nil {
		return &sinkv1.HealthResponse{Error: cmp.Or(printable(err.Error()), "not healthy")}, nil
	}
	return &sinkv1.HealthResponse{}, nil
}

func unavailable(err error) error {
	if errors.Is(err, errClosing) {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// Close lets calls end and closes the sink.
func (s *server) Close(ctx context.Context, _ *sinkv1.CloseRequest) (*sinkv1.CloseResponse, error) {
	if err := s.close(ctx); err != nil {
		return nil, status.Error(codes.Unknown, printable(err.Error()))
	}
	return &sinkv1.CloseResponse{}, nil
}

// end is Close when there is nobody to answer to.
func (s *server) end() {
	ctx, cancel := context.WithTimeout(context.Background(), endIn)
	defer cancel()
	if err := s.close(ctx); err != nil {
		s.log.Error("the sink could not be closed", "error", err)
	}
}

// close refuses new calls, gives those under way most of the time that there
// is, and closes the sink.
func (s *server) close(ctx context.Context) error {
	sink, first := s.refuse()
	if !first || sink == nil {
		return nil
	}
	draining, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		draining, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/3))
	}
	defer cancel()
	select {
	case <-s.idle:
	case <-draining.Done():
	}
	closed := make(chan error, 1)
	go func() { closed <- sink.Close() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close the sink: %w", context.Cause(ctx))
	}
}

func (s *server) refuse() (sink core.Sink, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = !s.closing; first && s.calls == 0 {
		close(s.idle)
	}
	s.closing = true
	return s.sink, first
}

// faultsOf takes joined errors apart.
func faultsOf(err error) []*sinkv1.Fault {
	var faults []*sinkv1.Fault
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			faults = append(faults, faultsOf(one)...)
		}
	}
	if len(faults) == 0 { // no faults would say that all is well
		return []*sinkv1.Fault{faultOf(err)}
	}
	return faults
}

// wholeConfig is how sinks name their configuration as a whole.
const wholeConfig = "config"

func faultOf(err error) *sinkv1.Fault {
	f := &sinkv1.Fault{Reason: err.Error()}
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
		f.Field, f.Reason, f.TooLarge = invalid.Field, invalid.Reason, invalid.TooLarge
	}
	if f.Field == wholeConfig {
		f.Field = ""
	}
	f.Field, f.Reason = printable(f.Field), cmp.Or(printable(f.Reason), "is refused")
	return f
}
