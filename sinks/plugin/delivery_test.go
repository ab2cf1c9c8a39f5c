package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// stub is a plugin that is a function.
type stub struct {
	sinkv1.SinkServiceClient
	calls  [][]string
	answer func(call int, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error)
}

func (s *stub) Deliver(_ context.Context, request *sinkv1.DeliverRequest, _ ...grpc.CallOption) (*sinkv1.DeliverResponse, error) {
	var ids []string
	for _, m := range request.Messages {
		ids = append(ids, m.Id)
	}
	s.calls = append(s.calls, ids)
	if s.answer != nil {
		return s.answer(len(s.calls), request)
	}
	return confirm(request), nil
}

func confirm(request *sinkv1.DeliverRequest) *sinkv1.DeliverResponse {
	response := &sinkv1.DeliverResponse{}
	for _, m := range request.Messages {
		response.Results = append(response.Results, &sinkv1.Result{Id: m.Id, Outcome: sinkv1.Outcome_OUTCOME_CONFIRMED})
	}
	return response
}

func stubbed(s *stub, about *sinkv1.DescribeResponse) (*instance, *journal) {
	j := &journal{}
	return &instance{program: &program{exited: make(chan struct{})}, sink: s, about: about, bounds: boundsOf(about), log: j.log(),
		pace: standardPace(), since: time.Now(), result: make(chan error, 1), suspect: make(chan struct{}, 1)}, j
}

func (in *instance) deliverAll(ctx context.Context, batch []*core.Message) error {
	d := &delivery{in: in, batch: batch, results: make(core.BatchError, len(batch))}
	return d.run(ctx)
}

// classesOf is one word for each message.
func classesOf(err error, n int) string {
	results, ok := errors.AsType[core.BatchError](err)
	if !ok {
		return "all:" + classOf(err)
	}
	words := make([]string, n)
	for i := range words {
		words[i] = classOf(results[i])
	}
	return strings.Join(words, " ")
}

func classOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, core.ErrNotTried):
		return "untried"
	}
	return core.ClassOf(err).String()
}

func TestParts(t *testing.T) {
	big := func(n, size int) []*core.Message {
		batch := messages(n)
		for _, m := range batch {
			m.Body = make([]byte, size)
		}
		return batch
	}
	tests := map[string]struct {
		about *sinkv1.DescribeResponse
		batch []*core.Message
		calls string
		want  string
	}{
		"one call":         {nil, messages(3), "[m0 m1 m2]", "all:ok"},
		"max_batch":        {&sinkv1.DescribeResponse{MaxBatch: 2}, messages(5), "[m0 m1] [m2 m3] [m4]", "all:ok"},
		"max_batch_bytes":  {&sinkv1.DescribeResponse{MaxBatchBytes: 250}, big(5, 100), "[m0 m1] [m2 m3] [m4]", "all:ok"},
		"3 MiB":            {nil, big(4, 1<<20), "[m0 m1] [m2 m3]", "all:ok"},
		"one above 3 MiB":  {nil, big(2, 4<<20), "[m0] [m1]", "all:ok"},
		"above its bound":  {&sinkv1.DescribeResponse{MaxBatchBytes: 50}, append(messages(1), big(2, 51)[1]), "[m0]", "ok permanent"},
		"nonsense bounds":  {&sinkv1.DescribeResponse{MaxBatchBytes: -1, MaxBatch: -1}, messages(2), "[m0 m1]", "all:ok"},
		"alone, too large": {&sinkv1.DescribeResponse{MaxBatchBytes: 50}, big(1, 51), "", "permanent"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &stub{}
			in, _ := stubbed(s, test.about)
			err := in.deliverAll(t.Context(), test.batch)
			if got := strings.Trim(fmt.Sprint(s.calls), "[]"); got != strings.Trim(test.calls, "[]") {
				t.Errorf("called with %s", got)
			}
			if got := classesOf(err, len(test.batch)); got != test.want {
				t.Errorf("got %s: %v", got, err)
			}
		})
	}
}

// TestSizeOf: the estimate is never below the true size.
func TestSizeOf(t *testing.T) {
	m := &core.Message{ID: strings.Repeat("i", 128), Topic: strings.Repeat("t", 255), Key: make([]byte, 1024), Body: make([]byte, 1<<20),
		Options: map[string]string{}, DeliverAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), ExpiresAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Priority: 9, Attempt: 10_000}
	for n := range 64 {
		m.Headers = append(m.Headers, core.Header{Name: strings.Repeat("h", 255), Value: make([]byte, 1<<14+n)})
		m.Options[fmt.Sprintf("%0128d", n)] = strings.Repeat("o", 1024)
	}
	for _, m := range []*core.Message{m, {}, {ID: strings.Repeat("i", 128), DeliverAt: m.DeliverAt, ExpiresAt: m.ExpiresAt, Priority: 9, Attempt: 10_000}} {
		size := proto.Size(&sinkv1.DeliverRequest{Messages: toProto([]*core.Message{m})})
		if got := sizeOf(m); got < size || got > size+size/4+fixedSize {
			t.Errorf("estimated %d, is %d", got, size)
		}
	}
}

func TestClassesOfCalls(t *testing.T) {
	tooLarge := status.Error(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 8)")
	tests := map[string]struct {
		err  error
		want string
	}{
		"unavailable":         {status.Error(codes.Unavailable, "error reading from server: EOF"), "all:unknown"},
		"deadline":            {status.Error(codes.DeadlineExceeded, ""), "all:unknown"},
		"canceled":            {status.Error(codes.Canceled, ""), "all:unknown"},
		"internal":            {status.Error(codes.Internal, ""), "all:unknown"},
		"unknown":             {status.Error(codes.Unknown, ""), "all:unknown"},
		"not of gRPC":         {errors.New("odd"), "all:unknown"},
		"aborted":             {status.Error(codes.Aborted, ""), "all:unknown"},
		"unimplemented":       {status.Error(codes.Unimplemented, ""), "all:blocked"},
		"failed precondition": {status.Error(codes.FailedPrecondition, ""), "all:blocked"},
		"exhausted, no size":  {status.Error(codes.ResourceExhausted, "quota"), "all:unknown"},
		"request too large":   {tooLarge, "permanent permanent permanent permanent"},
		"reply too large": {status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. %d)", maxReply+4*replySize),
			"all:unknown"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in, _ := stubbed(&stub{answer: func(int, *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) { return nil, test.err }}, nil)
			err := in.deliverAll(t.Context(), messages(4))
			if got := classesOf(err, 4); got != test.want {
				t.Errorf("got %s: %v", got, err)
			}
			if in.condemned.Load() {
				t.Error("it is to be replaced")
			}
		})
	}
}

// TestTooLargeIsSplit: only the culprit is refused, and the order stays.
func TestTooLargeIsSplit(t *testing.T) {
	s := &stub{answer: func(_ int, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
		for _, m := range request.Messages {
			if m.Id == "m2" {
				return nil, status.Error(codes.ResourceExhausted, "SERVER: Received message larger than max (9 vs. 8)")
			}
		}
		return confirm(request), nil
	}}
	in, _ := stubbed(s, nil)
	err := in.deliverAll(t.Context(), messages(5))
	if got := classesOf(err, 5); got != "ok ok permanent ok ok" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(s.calls); got != "[[m0 m1 m2 m3 m4] [m0 m1] [m2 m3 m4] [m2] [m3 m4]]" {
		t.Errorf("called with %s", got)
	}
}

// TestTroubleInTheMiddle: what was confirmed stays so, and the rest is not sent.
func TestTroubleInTheMiddle(t *testing.T) {
	for name, test := range map[string]struct {
		trouble sinkv1.Outcome
		err     error
		calls   int
		want    string
	}{
		"died":         {0, status.Error(codes.Unavailable, "EOF"), 2, "ok ok unknown unknown untried untried"},
		"retry":        {sinkv1.Outcome_OUTCOME_RETRY, nil, 2, "ok ok retry retry untried untried"},
		"blocked":      {sinkv1.Outcome_OUTCOME_BLOCKED, nil, 2, "ok ok blocked blocked untried untried"},
		"permanent":    {sinkv1.Outcome_OUTCOME_PERMANENT, nil, 3, "ok ok permanent permanent ok ok"},
		"topicblocked": {sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED, nil, 3, "ok ok topic_blocked topic_blocked ok ok"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{answer: func(call int, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
				switch {
				case call != 2:
					return confirm(request), nil
				case test.err != nil:
					return nil, test.err
				}
				return &sinkv1.DeliverResponse{Trouble: &sinkv1.Result{Outcome: test.trouble, Error: "so it is"}}, nil
			}}
			in, _ := stubbed(s, &sinkv1.DescribeResponse{MaxBatch: 2})
			err := in.deliverAll(t.Context(), messages(6))
			if got := classesOf(err, 6); got != test.want || len(s.calls) != test.calls {
				t.Errorf("got %s after %d calls", got, len(s.calls))
			}
		})
	}
}

func TestTrouble(t *testing.T) {
	for outcome, want := range map[sinkv1.Outcome]string{
		sinkv1.Outcome_OUTCOME_RETRY: "all:retry", sinkv1.Outcome_OUTCOME_BLOCKED: "all:blocked",
		sinkv1.Outcome_OUTCOME_UNKNOWN: "all:unknown", sinkv1.Outcome_OUTCOME_PERMANENT: "all:permanent",
		sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED: "all:topic_blocked", sinkv1.Outcome_OUTCOME_UNSPECIFIED: "all:unknown",
		sinkv1.Outcome_OUTCOME_CONFIRMED: "all:unknown", 99: "all:unknown",
	} {
		in, _ := stubbed(&stub{answer: func(int, *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
			return &sinkv1.DeliverResponse{Trouble: &sinkv1.Result{Outcome: outcome, AfterMs: 1500, Error: "slow\x1b"}}, nil
		}}, nil)
		err := in.deliverAll(t.Context(), messages(2))
		if got := classesOf(err, 2); got != want {
			t.Errorf("%s: got %s: %v", outcome, got, err)
		}
		nonsense := outcome == sinkv1.Outcome_OUTCOME_CONFIRMED
		if in.condemned.Load() != nonsense {
			t.Errorf("%s: condemned %v", outcome, !nonsense)
		}
		if e, ok := errors.AsType[*core.SinkError](err); outcome == sinkv1.Outcome_OUTCOME_RETRY && (!ok || e.After != 1500*time.Millisecond || e.Err.Error() != `slow\x1b`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNonsense(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*sinkv1.DeliverResponse)
		text  string
	}{
		"other message": {func(r *sinkv1.DeliverResponse) { r.Results[1].Id = "x" }, `its result 1 is for message "x", not for "m1"`},
		"other order":   {func(r *sinkv1.DeliverResponse) { r.Results[0], r.Results[1] = r.Results[1], r.Results[0] }, `its result 0 is for message "m1", not for "m0"`},
		"too few":       {func(r *sinkv1.DeliverResponse) { r.Results = r.Results[1:] }, "it returned 1 results for 2 messages"},
		"too many":      {func(r *sinkv1.DeliverResponse) { r.Results = append(r.Results, r.Results[0]) }, "it returned 3 results for 2 messages"},
		"empty":         {func(r *sinkv1.DeliverResponse) { r.Results = nil }, "it returned 0 results for 2 messages"},
		"absent":        {func(r *sinkv1.DeliverResponse) { r.Results[1] = nil }, `its result 1 is for message "", not for "m1"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{answer: func(_ int, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
				r := confirm(request)
				test.spoil(r)
				return r, nil
			}}
			in, _ := stubbed(s, nil)
			err := in.deliverAll(t.Context(), messages(2))
			if got := classesOf(err, 2); got != "all:unknown" {
				t.Errorf("got %s", got)
			}
			if why := <-in.result; why.Error() != test.text {
				t.Errorf("condemned for %v", why)
			}
			if err := in.deliverAll(t.Context(), messages(2)); classesOf(err, 2) != "all:retry" || len(s.calls) != 1 {
				t.Errorf("called again: %v", err)
			}
		})
	}
}

func TestOddOutcomeIsLoggedOnce(t *testing.T) {
	in, journal := stubbed(&stub{answer: func(_ int, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
		r := confirm(request)
		r.Results[1].Outcome = 77
		return r, nil
	}}, nil)
	for range 3 {
		if got := classesOf(in.deliverAll(t.Context(), messages(2)), 2); got != "ok unknown" {
			t.Errorf("got %s", got)
		}
	}
	if lines := journal.with(t, "plugin returned an undefined outcome, which counts as unknown"); len(lines) != 1 || lines[0]["outcome"] != 77.0 {
		t.Errorf("logged %v", lines)
	}
}

func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	s := &stub{}
	in, _ := stubbed(s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := classesOf(in.deliverAll(ctx, messages(2)), 2); got != "all:retry" || len(s.calls) != 0 {
		t.Errorf("got %s after %d calls", got, len(s.calls))
	}
}

// TestCallThatTheEndCutOff: the end of the process is a crash for a call that it cut off,
// whether the call hears of it first or the host, which then closes the connection.
func TestCallThatTheEndCutOff(t *testing.T) {
	in, _ := stubbed(&stub{}, nil)
	close(in.program.exited)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	closing := status.Error(codes.Canceled, "grpc: the client connection is closing")
	for name, test := range map[string]struct {
		ctx     context.Context
		err     error
		crashed bool
	}{
		"heard by the call": {t.Context(), status.Error(codes.Unavailable, "error reading from server: EOF"), true},
		"heard by the host": {t.Context(), closing, true},
		"given up by us":    {cancelled, status.Error(codes.Canceled, "context canceled"), false},
	} {
		err := in.failedCall(test.ctx, test.err, 1)
		if core.ClassOf(err) != core.Unknown || errors.Is(err, core.ErrCrashed) != test.crashed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSilence: a plugin that lives but answers no Deliver for long is replaced.
func TestSilence(t *testing.T) {
	in, _ := stubbed(&stub{answer: func(int, *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
		return nil, status.Error(codes.DeadlineExceeded, "")
	}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	expired := status.Error(codes.DeadlineExceeded, "")
	for range 5 {
		in.failedCall(ctx, expired, 1)
	}
	if in.condemned.Load() {
		t.Error("condemned at once")
	}
	in.since = in.since.Add(-time.Hour)
	in.delivers.missed.Store(0)
	for n, want := range []bool{false, false, true} {
		if in.failedCall(ctx, expired, 1); in.condemned.Load() != want {
			t.Errorf("after %d: condemned %v", n+1, !want)
		}
	}
}

// TestBrokerIsRefused: a plugin can't make the library keep what it wishes for.
func TestBrokerIsRefused(t *testing.T) {
	opened := ""
	open := func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		opened += method
		return nil, nil
	}
	if _, err := refuseBroker(t.Context(), nil, nil, "/plugin.GRPCBroker/StartStream", open); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
	if _, err := refuseBroker(t.Context(), nil, nil, "/plugin.GRPCStdio/StreamStdio", open); err != nil || opened != "/plugin.GRPCStdio/StreamStdio" {
		t.Errorf("opened %s: %v", opened, err)
	}
}
