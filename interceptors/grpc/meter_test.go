package grpclistener

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// held is what all connections hold, and how many there are.
func (f *fixture) held() (held, conns int) {
	t := f.listener.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	for m := range t.open {
		held += int(m.held.Load())
	}
	return held, len(t.open)
}

// soon waits for what the server does by itself.
func (f *fixture) soon(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			f.Fatalf("not within 30 s: %s", what)
		}
		f.conn.GetState() // gives others the processor
	}
}

func large(id string, size int) *bridgev1.Message {
	m := hourly(id)
	m.Body = make([]byte, size)
	return m
}

// A request counts until it is answered, however it comes and however it ends.
func TestRequestsCountUntilAnswered(t *testing.T) {
	const size = 200 << 10
	store := newGated()
	goOn := sync.OnceFunc(func() { close(store.goOn) })
	defer goOn()
	f := serve(t, Config{}, store)
	ctx, cancel := context.WithCancel(f.ctx())
	ended := make(chan error, 4)
	call := func(id string, ctx context.Context, options ...grpc.CallOption) {
		go func() {
			_, err := f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: []*bridgev1.Message{large(id, size)}}, options...)
			ended <- err
		}()
		<-store.begun
	}
	call("a", f.ctx())
	if held, _ := f.held(); held < size || held > size+1000 {
		t.Errorf("one call: %d bytes are held", held)
	}
	call("b", f.ctx(), grpc.UseCompressor(gzip.Name))
	if held, _ := f.held(); held < 2*size || held > size+defaultMaxBatchBytes {
		t.Errorf("with a compressed one: %d bytes are held", held)
	}
	call("c", ctx)
	stream := f.stream()
	for n := range 3 {
		f.send(stream, uint64(n), large("s", size))
	}
	<-store.begun
	f.soon("all is counted", func() bool { held, _ := f.held(); return held >= 6*size })
	cancel()
	<-ended
	goOn()
	for range 3 {
		f.receive(stream)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.soon("nothing is held", func() bool { held, conns := f.held(); return held == 0 && conns == 1 })
	if f.listener.traffic.budget.Take(0); f.listener.traffic.budget.Spent() {
		t.Error("the budget is spent")
	}
}

// While requests take all there is, who takes them has to wait, others are told to come
// again, and health is told.
func TestBusyWhileRequestsTakeAll(t *testing.T) {
	store := newGated()
	goOn := sync.OnceFunc(func() { close(store.goOn) })
	defer goOn()
	f := serve(t, Config{MaxBatchBytes: 1 << 20, MaxUnansweredBytes: 1 << 20}, store)
	f.listener.traffic.patience = time.Hour
	const calls = 6 // of which five fit
	ended := make(chan error, calls)
	for n := range calls {
		go func() {
			_, err := f.client.Publish(f.ctx(), &bridgev1.PublishRequest{Messages: []*bridgev1.Message{large(string(rune('a'+n)), 200<<10)}})
			ended <- err
		}()
		if n < calls-1 {
			<-store.begun
		}
	}
	f.soon("all is taken", f.listener.traffic.budget.Spent)
	other := dial(t, f.addr)
	_, err := bridgev1.NewBridgeServiceClient(other).Publish(f.ctx(), &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("more")}})
	if r := refusalOf(t, err); r.code != codes.ResourceExhausted || r.reason != "busy" || r.details["stored"] != "false" {
		t.Errorf("got %+v", r)
	}
	if response, err := healthv1.NewHealthClient(other).Check(f.ctx(), &healthv1.HealthCheckRequest{}); err != nil || response.Status != serving {
		t.Errorf("health: %v %v", response, err)
	}
	goOn()
	for range calls {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.mustPublish(hourly("more"))
}

// unended begins a call whose request does not end, and returns what it reads.
func (f *fixture) unended(transport *http.Transport, size int) {
	f.Helper()
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(size+1))
	body, to := io.Pipe()
	r, err := http.NewRequestWithContext(f.ctx(), "POST", "http://"+f.addr+"/delaybridge.v1.BridgeService/PublishStream", body)
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	go func() {
		io.Copy(to, io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, int64(size))))
		<-f.ctx().Done()
		to.Close()
	}()
	go func() {
		if response, err := transport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func plainHTTP2(t *testing.T) *http.Transport {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// Requests that do not end take no more than there is, and who holds most goes.
func TestRequestsThatDoNotEnd(t *testing.T) {
	f := newFixture(t, Config{MaxBatchBytes: 1 << 20, MaxUnansweredBytes: 4 << 20})
	f.mustPublish(hourly("before"))
	for range 10 {
		transport := plainHTTP2(t)
		for range 3 {
			f.unended(transport, 900<<10)
		}
	}
	f.soon("some are cut off", func() bool { _, conns := f.held(); return conns < 11 })
	f.soon("there is room", func() bool { return !f.listener.traffic.budget.Spent() })
	f.mustPublish(hourly("after"))
	if held, _ := f.held(); held > 4<<20+11*leastHeld {
		t.Errorf("%d bytes are held", held)
	}
}

// Nor does it last where nobody sends any more, and those who ask hold little.
func TestRequestsThatDoNotGoOn(t *testing.T) {
	f := newFixture(t, Config{MaxBatchBytes: 1 << 20, MaxUnansweredBytes: 2 << 20})
	f.unended(plainHTTP2(t), 900<<10)
	f.unended(plainHTTP2(t), 900<<10)
	f.soon("both have come", func() bool { held, _ := f.held(); return held >= 1800<<10 })
	f.listener.traffic.count(300 << 10) // of many who hold little each
	_, err := f.publish(hourly("a"))
	if r := refusalOf(t, err); r.reason != "busy" {
		t.Errorf("got %+v", r)
	}
	f.soon("there is room", func() bool { _, err := f.publish(hourly("a")); return err == nil })
}

// sinkConn is a connection that is never read from the network.
type sinkConn struct{ net.Conn }

func (sinkConn) Write(p []byte) (int, error) { return len(p), nil }
func (sinkConn) Close() error                { return nil }

func frameText(kind, flags byte, stream int, payload string) string {
	var text bytes.Buffer
	frame(&text, kind, flags, stream, []byte(payload))
	return text.String()
}

// In whatever pieces the bytes come, padded or not, the same is counted.
func TestMeterReadsWhateverPieces(t *testing.T) {
	request := "\x00\x00\x00\x00\x05hello"
	in := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frameText(4, 0, 0, "") + frameText(frameHeaders, 4, 1, "hpack") +
		frameText(frameData, 0, 1, request[:3]) + frameText(frameData, flagPadded, 1, "\x02"+request[3:]+"\x00\x00") +
		frameText(frameData, flagPadded, 1, "\x00") + frameText(frameData, 0, 1, "") + frameText(frameData, 0, 9, request) +
		frameText(frameHeaders, 4, 3, "hpack") + frameText(frameData, flagEndStream, 3, request+request+request[:7]) + frameText(8, 0, 0, "abcd")
	const one, coming = 5 + perMessage, 2 + perMessage
	for size := 1; size <= len(in); size++ {
		m := newMeter(sinkConn{}, newTraffic(Config{MaxUnansweredBytes: 1 << 20}))
		for rest := []byte(in); len(rest) > 0; {
			n := min(size, len(rest))
			m.received(rest[:n])
			rest = rest[n:]
		}
		want := func(what string, want int64) {
			t.Helper()
			if got := m.held.Load(); got != want {
				t.Fatalf("pieces of %d: %d are held %s, want %d", size, got, what, want)
			}
		}
		want("at first", 3*one+coming)
		m.Write([]byte(frameText(frameHeaders, 4, 3, "hpack") + frameText(frameData, 0, 3, request[:6])))
		want("while the answer is written", 3*one+coming)
		m.Write([]byte(frameText(frameData, 0, 3, request[6:])))
		want("when one is answered", 2*one+coming)
		m.Write([]byte(frameText(frameHeaders, 4|flagEndStream, 1, "hpack")))
		want("when a call has ended", one+coming)
		m.received([]byte(frameText(frameReset, 0, 3, "code") + frameText(frameData, 0, 3, request)))
		want("when a client has reset the other", 0)
		m.Close()
	}
}

// Producers fill the connections: health is told all the same, others are told to come
// again, and are taken when one has left.
func TestConnectionsAreBounded(t *testing.T) {
	f := newFixture(t, Config{MaxConnections: 2})
	f.mustPublish(hourly("a"))
	second, third := dial(t, f.addr), dial(t, f.addr)
	publish := func(conn *grpc.ClientConn) error {
		_, err := bridgev1.NewBridgeServiceClient(conn).Publish(f.ctx(), &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("b")}})
		return err
	}
	if err := publish(second); err != nil {
		t.Fatal(err)
	}
	if r := refusalOf(t, publish(third)); r.code != codes.ResourceExhausted || r.reason != "busy" {
		t.Errorf("got %+v", r)
	}
	if response, err := healthv1.NewHealthClient(third).Check(f.ctx(), &healthv1.HealthCheckRequest{}); err != nil || response.Status != serving {
		t.Errorf("health: %v %v", response, err)
	}
	second.Close()
	f.soon("the third connection is taken", func() bool { return publish(third) == nil })
}
