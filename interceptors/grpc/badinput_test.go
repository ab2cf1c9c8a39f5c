package grpclistener

import (
	"bufio"
	"bytes"
	stdgzip "compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// unstored checks that an error has the code, and that nothing was stored.
func (f *fixture) unstored(err error, code codes.Code) {
	f.Helper()
	if status.Code(err) != code {
		f.Errorf("got %v, want %s", err, code)
	}
	if parked, _ := f.store.seen(); len(parked) != 0 {
		f.Errorf("%d messages were parked", len(parked))
	}
}

func TestG1RequestOverTheLimit(t *testing.T) {
	f := newFixture(t, Config{MaxBatchBytes: 1})
	m := hourly("a")
	m.Body = make([]byte, 400<<10) // the limit is what one message needs
	_, err := f.publish(m)
	f.unstored(err, codes.ResourceExhausted)
	stream := f.stream()
	f.send(stream, 1, m)
	_, err = stream.Recv()
	f.unstored(err, codes.ResourceExhausted)
	m.Body = make([]byte, 256<<10)
	f.mustPublish(m)
}

func TestG2GzipBomb(t *testing.T) {
	f := newFixture(t, Config{})
	m := hourly("a")
	m.Body = make([]byte, 48<<20)
	request := &bridgev1.PublishRequest{Messages: []*bridgev1.Message{m}}
	var before, after runtime.MemStats
	raw, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	writer, err := stdgzip.NewWriterLevel(&packed, stdgzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	writer.Write(raw)
	writer.Close()
	m.Body = nil
	runtime.ReadMemStats(&before)
	answer := f.raw("Publish", 1, packed.Bytes(), "grpc-encoding", "gzip")
	runtime.ReadMemStats(&after)
	if answer != int(codes.ResourceExhausted) {
		t.Errorf("got status %d", answer)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 24<<20 {
		t.Errorf("%d MiB were allocated for it", grown>>20)
	}
	f.unstored(status.Error(codes.OK, ""), codes.OK)
	m.Body = bytes.Repeat([]byte("b"), 200<<10)
	if _, err := f.client.Publish(f.ctx(), request, grpc.UseCompressor(gzip.Name)); err != nil {
		t.Errorf("an honest one: %v", err)
	}
}

func TestG3DeadlineAlreadyOver(t *testing.T) {
	f := newFixture(t, Config{})
	raw, err := proto.Marshal(&bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("a")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.raw("Publish", 0, raw, "grpc-timeout", "1n"); got != int(codes.DeadlineExceeded) {
		t.Errorf("got status %d", got)
	}
	f.unstored(nil, codes.OK)
	if got := f.raw("Publish", 0, raw); got != 0 {
		t.Errorf("without a deadline: status %d", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.listener.surviveUnary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
		t.Error("the call was begun")
		return nil, nil
	})
	if r := refusalOf(t, err); r.code != codes.DeadlineExceeded || r.reason != "request_timeout" || r.details["stored"] != "false" {
		t.Errorf("got %+v", r)
	}
}

func TestG4ClientCancelsMidCall(t *testing.T) {
	store := newGated()
	f := serve(t, Config{}, store)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("a")}})
		ended <- err
	}()
	<-store.begun
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	close(store.goOn)
	again := f.mustPublish(hourly("a"))
	// The first call may come after the second, which is then the duplicate.
	third := f.mustPublish(hourly("a"))
	if !third.Duplicate || third.DeliverAt.AsTime() != again.DeliverAt.AsTime() {
		t.Errorf("got %v, then %v", again, third)
	}
	page, err := f.client.List(f.ctx(), &bridgev1.ListRequest{})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("stored: %v %v", page, err)
	}
}

// Metadata is no part of a message, whatever it holds.
func TestG5BinaryMetadata(t *testing.T) {
	f := newFixture(t, Config{})
	ctx := metadata.AppendToOutgoingContext(f.ctx(), "trace-bin", "\x00\x01\x02", "delaybridge-id", "other")
	response, err := f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("a")}})
	if err != nil || response.Results[0].Id != "a" {
		t.Fatalf("got %v %v", response, err)
	}
	if parked, _ := f.store.seen(); len(parked[0].Headers) != 0 {
		t.Errorf("headers %v", parked[0].Headers)
	}
}

func TestG6ThousandMetadataKeys(t *testing.T) {
	f := newFixture(t, Config{})
	ctx := f.ctx()
	for n := range 1000 {
		ctx = metadata.AppendToOutgoingContext(ctx, fmt.Sprintf("k%d", n), "v")
	}
	_, err := f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("a")}})
	if r := f.refused(err, codes.ResourceExhausted, "headers_too_large"); r.details["stored"] != "false" {
		t.Errorf("got %+v", r)
	}
	f.mustPublish(hourly("a"))
}

func TestG7UnknownFields(t *testing.T) {
	f := newFixture(t, Config{})
	m := hourly("a")
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "later")
	m.ProtoReflect().SetUnknown(unknown)
	request := &bridgev1.PublishRequest{Messages: []*bridgev1.Message{m}}
	request.ProtoReflect().SetUnknown(unknown)
	if _, err := f.client.Publish(f.ctx(), request); err != nil {
		t.Fatal(err)
	}
	parked, _ := f.store.seen()
	if parked[0].ID != "a" || string(parked[0].Body) != "b" || parked[0].Delay != time.Hour {
		t.Errorf("got %+v", parked[0])
	}
}

func TestG8G9TimesThatAreNone(t *testing.T) {
	const most = 1<<63 - 1
	type message = bridgev1.Message
	tests := map[string]struct {
		spoil func(*message)
		field string
	}{
		"delay of -1 s":         {func(m *message) { m.Delay = &durationpb.Duration{Seconds: -1} }, "delay"},
		"delay of -1 ns":        {func(m *message) { m.Delay = &durationpb.Duration{Nanos: -1} }, "delay"},
		"delay of all seconds":  {func(m *message) { m.Delay = &durationpb.Duration{Seconds: most} }, "delay"},
		"delay of 10,000 years": {func(m *message) { m.Delay = &durationpb.Duration{Seconds: 315_576_000_000} }, "delay"},
		"delay of mixed signs":  {func(m *message) { m.Delay = &durationpb.Duration{Seconds: 5, Nanos: -1} }, "delay"},
		"delay with 2e9 nanos":  {func(m *message) { m.Delay = &durationpb.Duration{Nanos: 2e9} }, "delay"},
		"ttl of all seconds":    {func(m *message) { m.Ttl = &durationpb.Duration{Seconds: most} }, "ttl"},
		"ttl of 10,000 years":   {func(m *message) { m.Ttl = &durationpb.Duration{Seconds: 315_576_000_000} }, "ttl"},
		"ttl of -1 s":           {func(m *message) { m.Ttl = &durationpb.Duration{Seconds: -1} }, "ttl"},
		"time with 2e9 nanos":   {func(m *message) { m.Delay, m.DeliverAt = nil, &timestamppb.Timestamp{Nanos: 2e9} }, "deliver_at"},
		"time with -1 nanos":    {func(m *message) { m.Delay, m.DeliverAt = nil, &timestamppb.Timestamp{Seconds: 2e9, Nanos: -1} }, "deliver_at"},
		"time of all seconds":   {func(m *message) { m.Delay, m.DeliverAt = nil, &timestamppb.Timestamp{Seconds: most} }, "deliver_at"},
		"time of the year 1":    {func(m *message) { m.Delay, m.DeliverAt = nil, &timestamppb.Timestamp{Seconds: -62135596800} }, "deliver_at"},
		"expiry of the year 1":  {func(m *message) { m.ExpiresAt = &timestamppb.Timestamp{Seconds: -62135596800} }, "expires_at"},
		"expiry, 2e9 nanos":     {func(m *message) { m.ExpiresAt = &timestamppb.Timestamp{Nanos: 2e9} }, "expires_at"},
	}
	f := newFixture(t, Config{})
	for name, test := range tests {
		m := hourly("a")
		test.spoil(m)
		_, err := f.publish(m)
		if r := f.refused(err, codes.InvalidArgument, "invalid"); r.field != "messages[0]."+test.field {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestG10InvalidUTF8(t *testing.T) {
	f := newFixture(t, Config{})
	// messages { id: "\xff" }
	raw := []byte{0x0a, 3, 0x0a, 1, 0xff}
	for name, body := range map[string][]byte{"UTF-8": raw, "no protobuf": {0xff, 0xff, 0xff}, "cut off": raw[:4]} {
		err := f.conn.Invoke(f.ctx(), bridgev1.BridgeService_Publish_FullMethodName, body, new(bridgev1.PublishResponse), grpc.ForceCodec(rawCodec{}))
		if f.unstored(err, codes.Internal); t.Failed() {
			t.Fatal(name)
		}
	}
	stream, err := f.conn.NewStream(f.ctx(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		bridgev1.BridgeService_PublishStream_FullMethodName, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg([]byte{0xff}); err != nil {
		t.Fatal(err)
	}
	f.unstored(stream.RecvMsg(new(bridgev1.PublishStreamResponse)), codes.Internal)
	f.mustPublish(hourly("a"))
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }

func TestG11TenThousandStreams(t *testing.T) {
	f := newFixture(t, Config{MaxStreams: 50})
	conn := f.attack()
	go func() {
		w := bufio.NewWriter(conn)
		for n := range 10_000 {
			frame(w, 1, 4, 2*n+1, streamHead(f.addr)) // HEADERS, END_HEADERS, no END_STREAM
		}
		w.Flush()
	}()
	refused := 0
	for r := bufio.NewReader(conn); refused < 10_000-50; {
		kind, payload, err := readFrame(r)
		if err != nil {
			t.Fatalf("after %d refusals: %v", refused, err)
		}
		if kind == 3 { // RST_STREAM
			if code := binary.BigEndian.Uint32(payload); code != 7 {
				t.Fatalf("a stream was reset with %d, not REFUSED_STREAM", code)
			}
			refused++
		}
	}
	f.mustPublish(hourly("a"))
}

func TestG12PingFlood(t *testing.T) {
	f := newFixture(t, Config{})
	conn := f.attack()
	go func() {
		w := bufio.NewWriter(conn)
		for range 100 {
			frame(w, 6, 0, 0, make([]byte, 8)) // PING
		}
		w.Flush()
	}()
	for r := bufio.NewReader(conn); ; {
		kind, payload, err := readFrame(r)
		if err != nil {
			t.Fatalf("the connection ended without GOAWAY: %v", err)
		}
		if kind == 7 { // GOAWAY
			if code := binary.BigEndian.Uint32(payload[4:]); code != 11 {
				t.Errorf("code %d, not ENHANCE_YOUR_CALM", code)
			}
			break
		}
	}
	f.mustPublish(hourly("a"))
}

func TestG13ReflectionIsOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		f := newFixture(t, Config{Reflection: on})
		stream, err := reflectionv1.NewServerReflectionClient(f.conn).ServerReflectionInfo(f.ctx())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}) // shows in Recv
		response, err := stream.Recv()
		if on && (err != nil || len(response.GetListServicesResponse().GetService()) < 2) {
			t.Errorf("on: got %v %v", response, err)
		}
		if !on && status.Code(err) != codes.Unimplemented {
			t.Errorf("off: got %v %v", response, err)
		}
	}
}

func TestUnknownMethod(t *testing.T) {
	f := newFixture(t, Config{})
	err := f.conn.Invoke(f.ctx(), "/delaybridge.v1.BridgeService/Nothing", new(bridgev1.GetRequest), new(bridgev1.GetResponse))
	f.unstored(err, codes.Unimplemented)
}

// raw makes a call by hand and returns its status.
func (f *fixture) raw(method string, compressed byte, message []byte, headers ...string) int {
	f.Helper()
	body := append([]byte{compressed}, binary.BigEndian.AppendUint32(nil, uint32(len(message)))...)
	r, err := http.NewRequestWithContext(f.ctx(), "POST", "http://"+f.addr+"/delaybridge.v1.BridgeService/"+method, bytes.NewReader(append(body, message...)))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		f.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		f.Fatal(err)
	}
	text := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status")
	var number int
	if _, err := fmt.Sscan(text, &number); err != nil {
		f.Fatalf("status %q: %v", text, err)
	}
	return number
}

// attack opens a connection of HTTP/2 by hand.
func (f *fixture) attack() net.Conn {
	f.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		f.Fatal(err)
	}
	w := bufio.NewWriter(conn)
	io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(w, 4, 0, 0, nil) // SETTINGS
	if err := w.Flush(); err != nil {
		f.Fatal(err)
	}
	return conn
}

func frame(w io.Writer, kind, flags byte, stream int, payload []byte) {
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	w.Write(append(binary.BigEndian.AppendUint32(head, uint32(stream)), payload...))
}

func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(r, payload)
	return head[3], payload, err
}

// streamHead is the head of a PublishStream in HPACK, without its dynamic table.
func streamHead(authority string) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
	head := []byte{0x83, 0x86, 0x04} // POST, http, :path
	head = text(head, bridgev1.BridgeService_PublishStream_FullMethodName)
	head = text(append(head, 0x01), authority)
	head = text(append(head, 0x0f, 31-15), "application/grpc") // content-type
	return text(text(append(head, 0), "te"), "trailers")
}
