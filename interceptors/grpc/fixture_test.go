package grpclistener

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy is a store that remembers what it was asked to park, and in which calls.
type spy struct {
	core.Store
	mu     sync.Mutex
	parked []*core.Message
	calls  int
}

func (s *spy) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.mu.Lock()
	s.calls++
	for _, m := range messages {
		kept := *m
		s.parked = append(s.parked, &kept)
	}
	s.mu.Unlock()
	return s.Store.Park(ctx, messages...)
}

func (s *spy) seen() (parked []*core.Message, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parked), s.calls
}

func (s *spy) Unwrap() core.Store { return s.Store }

// fixture is a server on loopback before a store in memory, and a client of it.
type fixture struct {
	*testing.T
	store    *spy
	listener *Server
	addr     string
	client   bridgev1.BridgeServiceClient
	conn     *grpc.ClientConn
	stop     func() error // what Run returned
}

func newFixture(t *testing.T, config Config, sinks ...string) *fixture {
	t.Helper()
	return serve(t, config, memstore.New(memstore.Config{}), sinks...)
}

func serve(t *testing.T, config Config, store core.Store, sinks ...string) *fixture {
	t.Helper()
	if len(sinks) == 0 {
		sinks = []string{"orders"}
	}
	f := &fixture{T: t, store: &spy{Store: store}}
	f.addr, f.listener, f.stop = start(t, config, interceptor(f.store, sinks...))
	f.conn = dial(t, f.addr)
	f.client = bridgev1.NewBridgeServiceClient(f.conn)
	return f
}

func start(t testing.TB, config Config, in *core.Interceptor) (addr string, listener *Server, stop func() error) {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	listener, err := New(config, in)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := listener.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return bound.String(), listener, stop
}

func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func interceptor(store core.Store, sinks ...string) *core.Interceptor {
	var dispatchers []*core.Dispatcher
	for _, name := range sinks {
		dispatchers = append(dispatchers, &core.Dispatcher{Name: name})
	}
	return core.NewBridge(store, core.Options{}, dispatchers...).Interceptor
}

// context ends with the test, and before the tests are given up.
func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), 30*time.Second)
	f.Cleanup(cancel)
	return ctx
}

// publish sends messages in one call.
func (f *fixture) publish(messages ...*bridgev1.Message) ([]*bridgev1.PublishResult, error) {
	response, err := f.client.Publish(f.ctx(), &bridgev1.PublishRequest{Messages: messages})
	return response.GetResults(), err
}

// mustPublish sends one message that must be taken.
func (f *fixture) mustPublish(m *bridgev1.Message) *bridgev1.PublishResult {
	f.Helper()
	results, err := f.publish(m)
	if err != nil {
		f.Fatal(err)
	}
	return results[0]
}

// hourly is a message due in an hour.
func hourly(id string) *bridgev1.Message {
	return &bridgev1.Message{Id: id, Topic: "t", Body: []byte("b"), Delay: durationpb.New(time.Hour)}
}

// refusal is what a client can read of an error.
type refusal struct {
	code    codes.Code
	reason  string
	field   string
	details map[string]string
	wait    time.Duration
}

func refusalOf(t *testing.T, err error) refusal {
	t.Helper()
	s, ok := status.FromError(err)
	if !ok || err == nil {
		t.Fatalf("%v is no status", err)
	}
	r := refusal{code: s.Code()}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain != "delaybridge" {
				t.Errorf("domain %q", d.Domain)
			}
			r.reason, r.details = d.Reason, d.Metadata
		case *errdetails.BadRequest:
			r.field = d.FieldViolations[0].Field
		case *errdetails.RetryInfo:
			r.wait = d.RetryDelay.AsDuration()
		}
	}
	if r.details["field"] != r.field {
		t.Errorf("ErrorInfo names the field %q, BadRequest %q", r.details["field"], r.field)
	}
	if r.field != "" && !strings.HasPrefix(s.Message(), r.field+": ") {
		t.Errorf("the message %q does not begin with the field %s", s.Message(), r.field)
	}
	return r
}

// refused checks an error and that nothing reached the store.
func (f *fixture) refused(err error, code codes.Code, reason string) refusal {
	f.Helper()
	r := refusalOf(f.T, err)
	if r.code != code || r.reason != reason {
		f.Errorf("got %s %q (%v), want %s %q", r.code, r.reason, err, code, reason)
	}
	if parked, _ := f.store.seen(); len(parked) != 0 {
		f.Errorf("the store was asked to park %d messages", len(parked))
	}
	return r
}
