package grpclistener

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

type clientStream = grpc.BidiStreamingClient[bridgev1.PublishStreamRequest, bridgev1.PublishStreamResponse]

func (f *fixture) stream() clientStream {
	f.Helper()
	stream, err := f.client.PublishStream(f.ctx())
	if err != nil {
		f.Fatal(err)
	}
	return stream
}

func (f *fixture) send(stream clientStream, sequence uint64, messages ...*bridgev1.Message) {
	f.Helper()
	if err := stream.Send(&bridgev1.PublishStreamRequest{Sequence: sequence, Messages: messages}); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) receive(stream clientStream) *bridgev1.PublishStreamResponse {
	f.Helper()
	response, err := stream.Recv()
	if err != nil {
		f.Fatal(err)
	}
	return response
}

func TestStreamOfTenThousand(t *testing.T) {
	f := newFixture(t, Config{})
	stream := f.stream()
	const total, each = 10_000, 8
	sent := make(chan error, 1)
	go func() {
		for n := 0; n < total; n += each {
			request := &bridgev1.PublishStreamRequest{Sequence: uint64(n)}
			for i := range each {
				request.Messages = append(request.Messages, hourly(fmt.Sprint("m-", n+i)))
			}
			if err := stream.Send(request); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for n := 0; n < total; n += each {
		response := f.receive(stream)
		if response.Sequence != uint64(n) || len(response.Results) != each {
			t.Fatalf("at %d: sequence %d with %d results", n, response.Sequence, len(response.Results))
		}
		for i, r := range response.Results {
			if want := fmt.Sprint("m-", n+i); r.Id != want || r.Error != nil || r.State != bridgev1.State_STATE_SCHEDULED {
				t.Fatalf("got %v, want %s", r, want)
			}
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	parked, _ := f.store.seen()
	for n, m := range parked {
		if want := fmt.Sprint("m-", n); m.ID != want {
			t.Fatalf("accepted %s where %s was sent", m.ID, want)
		}
	}
	if len(parked) != total {
		t.Errorf("%d messages were parked", len(parked))
	}
}

// gated is a store whose Park waits for goOn.
type gated struct {
	*memstore.Store
	begun chan int // how many messages a Park has
	goOn  chan struct{}
}

func newGated() *gated {
	return &gated{Store: memstore.New(memstore.Config{}), begun: make(chan int, 1000), goOn: make(chan struct{})}
}

func (g *gated) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	g.begun <- len(messages)
	<-g.goOn
	return g.Store.Park(ctx, messages...)
}

// fakeStream is the server's side of a stream whose client sends what is in
// requests, and then nothing more.
type fakeStream struct {
	grpc.ServerStream
	ctx       context.Context
	requests  chan *bridgev1.PublishStreamRequest
	read      int
	last      int           // how many requests there will be
	allRead   chan struct{} // closed when they have all been taken
	responses []*bridgev1.PublishStreamResponse
}

func (s *fakeStream) Context() context.Context { return s.ctx }

func (s *fakeStream) Recv() (*bridgev1.PublishStreamRequest, error) {
	if s.read == s.last {
		close(s.allRead)
	}
	if request, ok := <-s.requests; ok {
		s.read++
		return request, nil
	}
	return nil, io.EOF
}

func (s *fakeStream) Send(response *bridgev1.PublishStreamResponse) error {
	s.responses = append(s.responses, response)
	return nil
}

// What arrives during one call of the store goes into the next one together; a
// lone request waits for nothing.
func TestStreamGathersWhatArrives(t *testing.T) {
	store := newGated()
	b := newBridge(Config{}.withDefaults(core.Limits{}), interceptor(store, "orders"))
	stream := &fakeStream{ctx: t.Context(), requests: make(chan *bridgev1.PublishStreamRequest, 100), last: 22, allRead: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- b.PublishStream(stream) }()
	stream.requests <- requestOf(1, 1)
	if n := <-store.begun; n != 1 {
		t.Errorf("the first call of the store has %d messages", n)
	}
	for n := range 20 {
		stream.requests <- requestOf(uint64(2+n), 2)
	}
	stream.requests <- requestOf(22, 0)
	<-stream.allRead
	store.goOn <- struct{}{}
	if n := <-store.begun; n != 40 {
		t.Errorf("the second call of the store has %d messages", n)
	}
	store.goOn <- struct{}{}
	close(stream.requests)
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	for n, r := range stream.responses {
		want := 2
		switch n {
		case 0:
			want = 1
		case 21:
			want = 0
		}
		if r.Sequence != uint64(n+1) || len(r.Results) != want {
			t.Errorf("response %d: %v", n+1, r)
		}
	}
	if len(stream.responses) != 22 {
		t.Errorf("%d responses", len(stream.responses))
	}
	b.readers.Wait()
}

func TestStreamGoesOnAfterARefusal(t *testing.T) {
	f := newFixture(t, Config{})
	stream := f.stream()
	bad := hourly("bad")
	bad.Topic = ""
	f.send(stream, 7, bad, hourly("a"))
	response := f.receive(stream)
	if r := response.Results[0]; r.Error.GetCode() != "invalid" || r.Error.GetField() != "topic" || r.Error.GetMessage() == "" || r.Id != "bad" {
		t.Errorf("got %v", r)
	}
	if r := response.Results[1]; r.Error != nil || r.Id != "a" {
		t.Errorf("got %v", r)
	}
	f.send(stream, 7, hourly("a"))
	if r := f.receive(stream); r.Sequence != 7 || !r.Results[0].Duplicate {
		t.Errorf("got %v", r)
	}
}

func TestStreamEndsAtARequestThatIsTooLong(t *testing.T) {
	f := newFixture(t, Config{MaxBatch: 2})
	stream := f.stream()
	f.send(stream, 1, hourly("a"))
	f.send(stream, 2, hourly("b"), hourly("c"), hourly("d"))
	if r := f.receive(stream); r.Sequence != 1 || r.Results[0].Error != nil {
		t.Errorf("what went before: %v", r)
	}
	_, err := stream.Recv()
	if r := refusalOf(t, err); r.code != codes.InvalidArgument || r.field != "messages" || r.details["stored"] != "false" {
		t.Errorf("got %v", err)
	}
	if parked, _ := f.store.seen(); len(parked) != 1 {
		t.Errorf("%d messages were parked", len(parked))
	}
}

// An old stream ends by itself, and the client knows what to send again.
func TestStreamEndsWithAge(t *testing.T) {
	f := newFixture(t, Config{ConnectionAge: time.Second})
	stream := f.stream()
	f.send(stream, 1, hourly("a"))
	answered := 0
	for {
		_, err := stream.Recv()
		if err != nil {
			if r := refusalOf(t, err); r.code != codes.Unavailable || r.reason != "unavailable" || r.details["stored"] != "false" {
				t.Errorf("got %v", err)
			}
			break
		}
		answered++
	}
	if parked, _ := f.store.seen(); answered != len(parked) {
		t.Errorf("%d answered, %d parked", answered, len(parked))
	}
}

// Whatever has been begun is answered; nothing else is stored.
func TestShutdownAnswersWhatHasBegun(t *testing.T) {
	store := newGated()
	f := serve(t, Config{}, store)
	stream := f.stream()
	f.send(stream, 1, hourly("s1"))
	<-store.begun
	unary := make(chan error, 1)
	go func() { _, err := f.publish(hourly("u")); unary <- err }()
	<-store.begun
	f.send(stream, 2, hourly("s2"))
	stopped := make(chan error, 1)
	go func() { stopped <- f.stop() }()
	<-f.listener.bridge.stopping
	close(store.goOn)
	answered := 0
	for {
		response, err := stream.Recv()
		if err != nil {
			if r := refusalOf(t, err); r.code != codes.Unavailable || r.details["stored"] != "false" {
				t.Errorf("the stream ended with %v", err)
			}
			break
		}
		if answered++; response.Sequence != uint64(answered) || response.Results[0].Error != nil {
			t.Errorf("got %v", response)
		}
	}
	if err := <-unary; err != nil {
		t.Errorf("the call that had begun: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if parked, _ := f.store.seen(); answered < 1 || len(parked) != answered+1 {
		t.Errorf("%d answered on the stream, %d parked in all", answered, len(parked))
	}
	if _, err := f.publish(hourly("late")); refusalOf(t, err).code != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	store := newGated()
	f := serve(t, Config{StopTimeout: 50 * time.Millisecond}, store)
	go func() {
		_, _ = f.publish(hourly("a"))
		close(store.goOn) // it was cut off, and Run waits for the store
	}()
	<-store.begun
	stopped := make(chan error, 1)
	go func() { stopped <- f.stop() }()
	if err := <-stopped; err == nil {
		t.Error("nobody was told that calls were cut off")
	}
}

// A client that does not read its responses is not read from, either: what the
// bridge holds for it is bounded.
func TestSlowReaderIsHeldUp(t *testing.T) {
	f := newFixture(t, Config{MaxBatch: 20})
	before := inUse() // by tests that have ended
	conn := dial(t, f.addr, grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stream, err := bridgev1.NewBridgeServiceClient(conn).PublishStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 8<<10)
	const total = 6_000 // 48 MiB
	var sent atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer stream.CloseSend() // an error shows in Recv
		for n := range total {
			m := hourly("")
			m.Topic, m.Body = "missing space", body // is refused, so that the store stays small
			if stream.Send(&bridgev1.PublishStreamRequest{Sequence: uint64(n), Messages: []*bridgev1.Message{m}}) != nil {
				return
			}
			sent.Add(1)
		}
	}()
	held := awaitStill(&sent)
	if held == 0 || held > total/2 {
		t.Errorf("%d of %d requests were sent without reading a response", held, total)
	}
	if grown := inUse() - before; grown > 24<<20 {
		t.Errorf("%d MiB more are in use", grown>>20)
	}
	for n := range total {
		response, err := stream.Recv()
		if err != nil || response.Sequence != uint64(n) || response.Results[0].Error.GetField() != "topic" {
			t.Fatalf("response %d: %v %v", n, response, err)
		}
	}
	<-ended
}

// inUse returns how many bytes the heap holds.
func inUse() int64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

// awaitStill returns the number when it is one and has not changed for a while;
// too early a return can't fail a test that bounds it from above.
func awaitStill(number *atomic.Int64) int64 {
	for last := int64(0); ; {
		now := number.Load()
		if now == last && now > 0 {
			return now
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
}

// A client that goes away takes its stream with it, and what it sent is either
// stored whole or not at all; the same again is a duplicate or the first.
func TestClientThatGoesAway(t *testing.T) {
	store := newGated()
	f := serve(t, Config{}, store)
	ctx, cancel := context.WithCancel(f.ctx())
	stream, err := f.client.PublishStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.send(stream, 1, hourly("a"))
	<-store.begun
	cancel()
	if _, err := stream.Recv(); refusalOf(t, err).code != codes.Canceled {
		t.Errorf("got %v", err)
	}
	close(store.goOn)
	f.mustPublish(hourly("a"))
	if err := f.stop(); err != nil { // waits for the reader, too
		t.Error(err)
	}
}
