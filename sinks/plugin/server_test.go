package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// scripted is a sink that does what a test says.
type scripted struct {
	deliver func(ctx context.Context, batch []*core.Message) error
	check   func(m *core.Message) error
	health  func(ctx context.Context) error
	close   func() error
}

func (s *scripted) Deliver(ctx context.Context, batch []*core.Message) error {
	return s.deliver(ctx, batch)
}
func (s *scripted) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, s.check)
}
func (s *scripted) Health(ctx context.Context) error { return s.health(ctx) }
func (s *scripted) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// deliverOnly is a sink without other abilities.
type deliverOnly struct{ core.Sink }

func defined(sink core.Sink) Definition {
	return Definition{Name: "scripted", Version: "v1", Checks: true, TellsHealth: true,
		Open: func(context.Context, json.RawMessage) (core.Sink, error) { return sink, nil }}
}

// serving is a server with a sink in it.
func serving(t *testing.T, sink core.Sink) *server {
	t.Helper()
	s := newServer(defined(sink), slog.New(slog.DiscardHandler))
	if r, err := s.Configure(t.Context(), &sinkv1.ConfigureRequest{}); err != nil || len(r.Faults) > 0 {
		t.Fatalf("Configure = %v, %v", r, err)
	}
	return s
}

// dialed is a client of s over a connection with the options of Serve.
func dialed(t *testing.T, s *server, options ...grpc.CallOption) sinkv1.SinkServiceClient {
	t.Helper()
	listener, g := bufconn.Listen(1<<20), grpc.NewServer(s.options()...)
	sinkv1.RegisterSinkServiceServer(g, s)
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }), grpc.WithDefaultCallOptions(options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return sinkv1.NewSinkServiceClient(conn)
}

func TestMessageIsTheSameBehindTheBoundary(t *testing.T) {
	due := time.Date(2026, 1, 2, 15, 4, 5, 6e6, time.UTC)
	for _, m := range []*core.Message{
		{ID: "a", Topic: "t", DeliverAt: due, Attempt: 1},
		{ID: "b", Topic: "t", Key: []byte{}, Body: []byte{}, DeliverAt: due, ExpiresAt: due.Add(time.Hour), Attempt: 7, Priority: 9,
			Options: map[string]string{"retry.max": "1s"},
			Headers: []core.Header{{Name: "x", Value: []byte{0, 0xff}}, {Name: "x", Value: nil}, {Name: "x", Value: []byte{}}}},
	} {
		var got []*core.Message
		sink := &scripted{deliver: func(_ context.Context, batch []*core.Message) error { got = batch; return nil }}
		_, err := dialed(t, serving(t, sink)).Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: toProto([]*core.Message{m})})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*core.Message{m}, got); diff != "" {
			t.Errorf("message (-sent +got):\n%s", diff)
		}
	}
}

func TestDeliverAnswers(t *testing.T) {
	broken := errors.New("broken \xff")
	result := func(id string, o sinkv1.Outcome, text string) *sinkv1.Result {
		return &sinkv1.Result{Id: id, Outcome: o, Error: text}
	}
	tests := []struct {
		name string
		err  error
		want *sinkv1.DeliverResponse
	}{
		{"all confirmed", nil, &sinkv1.DeliverResponse{Results: []*sinkv1.Result{
			result("a", sinkv1.Outcome_OUTCOME_CONFIRMED, ""), result("b", sinkv1.Outcome_OUTCOME_CONFIRMED, "")}}},
		{"each its own", core.BatchError{nil, core.Classify(core.TopicBlocked, broken)}, &sinkv1.DeliverResponse{Results: []*sinkv1.Result{
			result("a", sinkv1.Outcome_OUTCOME_CONFIRMED, ""), result("b", sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED, "broken \ufffd")}}},
		{"the sink as a whole", fmt.Errorf("dial: %w", core.Classify(core.Blocked, broken)),
			&sinkv1.DeliverResponse{Trouble: result("", sinkv1.Outcome_OUTCOME_BLOCKED, "broken \ufffd")}},
		{"without a class", broken, &sinkv1.DeliverResponse{Trouble: result("", sinkv1.Outcome_OUTCOME_RETRY, "broken \ufffd")}},
		{"with a wait", &core.SinkError{Class: core.Retry, After: 1500 * time.Millisecond, Err: broken},
			&sinkv1.DeliverResponse{Trouble: &sinkv1.Result{Outcome: sinkv1.Outcome_OUTCOME_RETRY, AfterMs: 1500, Error: "broken \ufffd"}}},
		{"too few results", core.BatchError{core.Classify(core.Permanent, errors.New("no"))},
			&sinkv1.DeliverResponse{Trouble: result("", sinkv1.Outcome_OUTCOME_UNKNOWN,
				"1 results for 2 messages, the first failure with: 1 of 1 messages failed, the first with: permanent: no")}},
		{"long text", errors.New(strings.Repeat("x", 5000)),
			&sinkv1.DeliverResponse{Trouble: result("", sinkv1.Outcome_OUTCOME_RETRY, strings.Repeat("x", maxReason))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := dialed(t, serving(t, &scripted{deliver: func(context.Context, []*core.Message) error { return tt.err }}))
			got, err := client.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "a"}, {Id: "b"}}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigureAnswersFaults(t *testing.T) {
	tests := []struct {
		err  error
		want []*sinkv1.Fault
	}{
		{core.Invalidf("brokers[0]", "is not host:port"), []*sinkv1.Fault{{Field: "brokers[0]", Reason: "is not host:port"}}},
		{fmt.Errorf("open: %w", core.Invalidf("config", "is not an object")), []*sinkv1.Fault{{Reason: "is not an object"}}},
		{errors.Join(core.Invalidf("a", "x"), errors.Join(core.Invalidf("b", "y")), errors.New("no such directory")),
			[]*sinkv1.Fault{{Field: "a", Reason: "x"}, {Field: "b", Reason: "y"}, {Reason: "no such directory"}}},
		{core.BatchError{nil}, []*sinkv1.Fault{{Reason: "no message failed"}}}, // an odd one must not count as success
		{core.Invalidf("a", ""), []*sinkv1.Fault{{Field: "a", Reason: "is refused"}}},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			var got json.RawMessage
			results := []error{tt.err, nil}
			d := defined(nil)
			d.Open = func(_ context.Context, config json.RawMessage) (core.Sink, error) {
				got = config
				err := results[0]
				results = results[1:]
				return &scripted{}, err
			}
			client := dialed(t, newServer(d, slog.New(slog.DiscardHandler)))
			r, err := client.Configure(t.Context(), &sinkv1.ConfigureRequest{ConfigJson: []byte(`{"a":1}`)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.Faults, protocmp.Transform()); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if string(got) != `{"a":1}` {
				t.Errorf("Open got %s", got)
			}
			if _, err := client.Deliver(t.Context(), &sinkv1.DeliverRequest{}); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("Deliver before a good Configure: %v, want FailedPrecondition", err)
			}
			if r, err = client.Configure(t.Context(), &sinkv1.ConfigureRequest{}); err != nil || len(r.Faults) > 0 || string(got) != "{}" {
				t.Errorf("Configure again = %v, %v with %s; want it to be in force with {}", r, err, got)
			}
			if _, err = client.Configure(t.Context(), &sinkv1.ConfigureRequest{}); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("Configure when configured: %v, want FailedPrecondition", err)
			}
		})
	}
}

func TestOpensContextOutlivesTheCall(t *testing.T) {
	var kept context.Context
	d := defined(nil)
	d.Open = func(ctx context.Context, _ json.RawMessage) (core.Sink, error) { kept = ctx; return &scripted{}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := newServer(d, slog.New(slog.DiscardHandler)).Configure(ctx, &sinkv1.ConfigureRequest{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if kept.Err() != nil {
		t.Errorf("the context that Open got has ended with the call: %v", kept.Err())
	}
	d.Open = func(ctx context.Context, _ json.RawMessage) (core.Sink, error) { <-ctx.Done(); return nil, ctx.Err() }
	if r, err := newServer(d, slog.New(slog.DiscardHandler)).Configure(ctx, &sinkv1.ConfigureRequest{}); err != nil || len(r.Faults) != 1 {
		t.Errorf("Configure that is given up = %v, %v, want Open to be told and its error as a fault", r, err)
	}
}

func TestCheckAndHealth(t *testing.T) {
	sink := &scripted{
		check: func(m *core.Message) error {
			switch m.ID {
			case "large":
				return &core.InvalidError{Field: "body", Reason: "is too large", TooLarge: true}
			case "odd":
				return errors.New("odd")
			}
			return nil
		},
		health: func(context.Context) error { return errors.New("no broker") },
	}
	client := dialed(t, serving(t, sink))
	checked, err := client.Check(t.Context(), &sinkv1.CheckRequest{Messages: []*sinkv1.Message{{Id: "fine"}, {Id: "large"}, {Id: "odd"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []*sinkv1.Fault{{}, {Field: "body", Reason: "is too large", TooLarge: true}, {Reason: "odd"}}
	if diff := cmp.Diff(want, checked.Faults, protocmp.Transform()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if health, err := client.Health(t.Context(), &sinkv1.HealthRequest{}); err != nil || health.Error != "no broker" {
		t.Errorf("Health = %v, %v", health, err)
	}
	sink.health = func(context.Context) error { return nil }
	if health, err := client.Health(t.Context(), &sinkv1.HealthRequest{}); err != nil || health.Error != "" {
		t.Errorf("Health when healthy = %v, %v", health, err)
	}
	plain := dialed(t, serving(t, deliverOnly{sink}))
	if _, err := plain.Health(t.Context(), &sinkv1.HealthRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Health of a sink that tells none: %v, want Unimplemented", err)
	}
}

func TestPanicFailsItsCallOnly(t *testing.T) {
	var log bytes.Buffer
	sink := &scripted{deliver: func(_ context.Context, batch []*core.Message) error {
		if batch[0].ID == "bad" {
			panic("slipped")
		}
		return nil
	}}
	s := serving(t, sink)
	s.log = slog.New(newLogHandler(&log))
	client := dialed(t, s)
	_, err := client.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "bad"}}})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "slipped") {
		t.Errorf("Deliver = %v, want Internal with the cause", err)
	}
	if _, err := client.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "good"}}}); err != nil {
		t.Errorf("Deliver after a panic: %v", err)
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("log %q: %v", log.Bytes(), err)
	}
	if line["@level"] != "error" || line["@message"] != "plugin panicked" || !strings.Contains(fmt.Sprint(line["stack"]), "server_test.go") {
		t.Errorf("log line %v, want an error with the stack", line)
	}
	if _, err := client.Close(t.Context(), &sinkv1.CloseRequest{}); err != nil {
		t.Errorf("Close: %v; a call that panicked must not count as under way", err)
	}
}

func TestLargeBatchesPass(t *testing.T) {
	client := dialed(t, serving(t, &scripted{deliver: func(_ context.Context, batch []*core.Message) error {
		if len(batch[0].Body) != 15<<20 {
			return errors.New("body was cut")
		}
		return nil
	}}), grpc.MaxCallSendMsgSize(20<<20))
	r, err := client.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "a", Body: make([]byte, 15<<20)}}})
	if err != nil || r.Trouble != nil {
		t.Errorf("Deliver of 15 MiB = %v, %v", r.GetTrouble(), err)
	}
}

// TestDeliverAnswersBeforeItsDeadline: a result that comes with the deadline
// must not be lost on the way.
func TestDeliverAnswersBeforeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, &scripted{deliver: func(ctx context.Context, _ []*core.Message) error {
			<-ctx.Done()
			return core.BatchError{nil, ctx.Err()}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		r, err := s.Deliver(ctx, &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "a"}, {Id: "b"}}})
		if err != nil || r.Results[0].Outcome != sinkv1.Outcome_OUTCOME_CONFIRMED || r.Results[1].Outcome != sinkv1.Outcome_OUTCOME_RETRY {
			t.Errorf("Deliver = %v, %v, want what the sink knew at its deadline", r, err)
		}
		if took := time.Since(begin); took != 2*time.Second-answerIn {
			t.Errorf("Deliver took %s of 2 s, want %s to be left for the way", took, answerIn)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, closed := make(chan struct{}), false
		s := serving(t, &scripted{
			deliver: func(context.Context, []*core.Message) error { <-release; return nil },
			close:   func() error { closed = true; return nil },
		})
		request := &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "a"}}}
		answered := make(chan *sinkv1.DeliverResponse, 1)
		go func() { r, _ := s.Deliver(t.Context(), request); answered <- r }()
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := s.Close(ctx, &sinkv1.CloseRequest{})
			ended <- err
		}()
		synctest.Wait()
		if closed {
			t.Fatal("the sink was closed under a call")
		}
		if r, err := s.Deliver(t.Context(), request); err != nil || r.Trouble.GetOutcome() != sinkv1.Outcome_OUTCOME_RETRY {
			t.Errorf("Deliver while closing = %v, %v, want retry for the whole", r, err)
		}
		close(release)
		if r := <-answered; r.Results[0].Outcome != sinkv1.Outcome_OUTCOME_CONFIRMED {
			t.Errorf("call under way at Close = %v, want it confirmed", r)
		}
		if err := <-ended; err != nil || !closed {
			t.Errorf("Close = %v, closed %t", err, closed)
		}
		if _, err := s.Close(t.Context(), &sinkv1.CloseRequest{}); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestCloseWaitsForNobodyTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, stuck := make(chan struct{}), make(chan struct{})
		s := serving(t, &scripted{
			deliver: func(context.Context, []*core.Message) error { <-gone; return io.ErrClosedPipe },
			close:   func() error { close(gone); <-stuck; return nil },
		})
		go s.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "a"}}})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := s.Close(ctx, &sinkv1.CloseRequest{}); err == nil {
			t.Error("Close of a sink that does not close: no error")
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("Close took %s, want its 3 s", took)
		}
		close(stuck)
	})
}
