package grpclistener

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

func fullRequest() *bridgev1.PublishStreamRequest {
	return &bridgev1.PublishStreamRequest{Sequence: 1 << 63, Messages: []*bridgev1.Message{
		{},
		{Id: "é", Sink: "s", Topic: "t", Key: []byte{}, Body: []byte{}, Priority: -9, Options: map[string]string{"a": "b", "c": ""},
			Headers: []*bridgev1.Header{{Name: "n"}, {Value: []byte{}}, {Name: "n", Value: []byte{0}}},
			Delay:   &durationpb.Duration{Seconds: -1, Nanos: -999_999_999}, DeliverAt: &timestamppb.Timestamp{},
			Ttl: &durationpb.Duration{}, ExpiresAt: &timestamppb.Timestamp{Seconds: 1 << 40, Nanos: 1}},
		{Body: make([]byte, 300), Delay: &durationpb.Duration{Seconds: 1}},
	}}
}

func encodeRequest(t testing.TB, request proto.Message) []byte {
	raw, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// What a request within the bounds holds is read whole.
func TestCodecReadsEveryField(t *testing.T) {
	for _, request := range []*bridgev1.PublishStreamRequest{{}, {Sequence: 7}, requestOf(1, 40), fullRequest()} {
		got := new(bridgev1.PublishStreamRequest)
		data := mem.BufferSlice{mem.SliceBuffer(encodeRequest(t, request))}
		if err := testCodec().Unmarshal(data, got); err != nil {
			t.Errorf("%v at %v", err, request)
		}
		if !proto.Equal(got, request) {
			t.Errorf("got %v\nwant %v", got, request)
		}
	}
}

func testCodec() codec {
	return codec{encoding.GetCodecV2("proto"), 1000, func() core.Limits { return core.Limits{MaxHeaders: 60} }}
}

// Of what is more than allowed, one too many is read, so that it is refused.
func TestCodecReadsNoMoreThanIsAllowed(t *testing.T) {
	message := func(fields string) string {
		return "\x12" + string(protowire.AppendVarint(nil, uint64(len(fields)))) + fields
	}
	options := ""
	for n := range 5000 {
		options += "\x3a\x04\x0a\x02" + string(rune('a'+n%16)) + string(rune('a'+n/16%26))
	}
	request := new(bridgev1.PublishStreamRequest)
	text := message(strings.Repeat("\x2a\x00", 5000)) + message(options) + strings.Repeat("\x12\x00", 5000)
	if err := testCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(text)}, request); err != nil {
		t.Fatal(err)
	}
	if n := len(request.Messages); n != 1001 {
		t.Errorf("%d messages", n)
	}
	if n := len(request.Messages[0].Headers); n != 65 {
		t.Errorf("%d headers", n)
	}
	if n := len(request.Messages[1].Options); n != core.MaxOptions+1 {
		t.Errorf("%d options", n)
	}
	publish := new(bridgev1.PublishRequest)
	if err := testCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(strings.Repeat("\x0a\x00", 5000))}, publish); err != nil || len(publish.Messages) != 1001 {
		t.Errorf("%d messages, %v", len(publish.Messages), err)
	}
}

// FuzzStreamRequest: what comes in is read as the library reads it, errors too,
// but for what is more than allowed.
func FuzzStreamRequest(f *testing.F) {
	twice := encodeRequest(f, &bridgev1.PublishStreamRequest{Messages: []*bridgev1.Message{{Topic: "a", Delay: &durationpb.Duration{Seconds: 1}}}})
	f.Add(append(twice, twice...))
	f.Add(encodeRequest(f, fullRequest()))
	f.Add([]byte("\x12\x04\x4a\x00\x4a\x00"))       // two delays
	f.Add([]byte("\x12\x03\x0a\x01\xff"))           // no UTF-8
	f.Add([]byte("\x12\x02\xf8\x01\x01\xfa\x01"))   // unknown fields
	f.Add([]byte("\x08\xff\xff\xff\xff\xff\xff"))   // cut off
	f.Add([]byte("\x80\x80\x80\x8000"))             // a number that no field can have
	f.Add([]byte("\x12\x04\x42\x02ab"))             // a priority that is bytes
	f.Add([]byte("\x12\x06\x3a\x04\x12\x02zz\x80")) // an option without a name
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, want := new(bridgev1.PublishStreamRequest), new(bridgev1.PublishStreamRequest)
		wanted := proto.Unmarshal(raw, want)
		if isOver(want) {
			return
		}
		err := testCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got)
		if (err == nil) != (wanted == nil) {
			t.Fatalf("%v, and the library: %v", err, wanted)
		}
		if err == nil && !proto.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

func isOver(request *bridgev1.PublishStreamRequest) bool {
	return len(request.Messages) > 1000 || slices.ContainsFunc(request.Messages, func(m *bridgev1.Message) bool {
		return len(m.Headers) > 64 || len(m.Options) > core.MaxOptions
	})
}

// BenchmarkCodec is a request of 100 messages, with two headers each.
func BenchmarkCodec(b *testing.B) {
	request := benchRequest(100)
	for _, m := range request.Messages {
		m.Headers = []*bridgev1.Header{{Name: "content-type", Value: []byte("text/plain")}, {Name: "trace", Value: []byte("0123456789")}}
	}
	data, common := mem.BufferSlice{mem.SliceBuffer(encodeRequest(b, request))}, encoding.GetCodecV2("proto")
	for name, c := range map[string]encoding.CodecV2{"library": common, "bounded": testCodec()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Unmarshal(data, new(bridgev1.PublishStreamRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
