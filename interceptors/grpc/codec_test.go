package grpcdoor

import (
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// What a request holds, wire reads without the library's help.
func TestWireReadsEveryField(t *testing.T) {
	for _, request := range []*bridgev1.PublishStreamRequest{{}, {Sequence: 7}, requestOf(1, 40), fullRequest()} {
		got := new(bridgev1.PublishStreamRequest)
		if !newWire(encodeRequest(t, request)).request(got) {
			t.Errorf("gave up at %v", request)
		}
		if !proto.Equal(got, request) {
			t.Errorf("got %v\nwant %v", got, request)
		}
	}
}

// FuzzStreamRequest: what comes in is read as the library reads it, errors too.
func FuzzStreamRequest(f *testing.F) {
	twice := encodeRequest(f, &bridgev1.PublishStreamRequest{Messages: []*bridgev1.Message{{Topic: "a", Delay: &durationpb.Duration{Seconds: 1}}}})
	f.Add(append(twice, twice...))
	f.Add(encodeRequest(f, fullRequest()))
	f.Add([]byte("\x12\x04\x4a\x00\x4a\x00"))       // two delays
	f.Add([]byte("\x12\x03\x0a\x01\xff"))           // no UTF-8
	f.Add([]byte("\x12\x02\xf8\x01\x01\xfa\x01"))   // unknown fields
	f.Add([]byte("\x08\xff\xff\xff\xff\xff\xff"))   // cut off
	f.Add([]byte("\x12\x04\x42\x02ab"))             // a priority that is bytes
	f.Add([]byte("\x12\x06\x3a\x04\x12\x02zz\x80")) // an option without a name
	common := encoding.GetCodecV2("proto")
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, want := new(bridgev1.PublishStreamRequest), new(bridgev1.PublishStreamRequest)
		data := mem.BufferSlice{mem.SliceBuffer(raw)}
		err, wanted := codec{common}.Unmarshal(data, got), common.Unmarshal(data, want)
		if (err == nil) != (wanted == nil) {
			t.Fatalf("%v, and the library: %v", err, wanted)
		}
		if err == nil && !proto.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

// BenchmarkCodec is a request of 100 messages, with two headers each.
func BenchmarkCodec(b *testing.B) {
	request := benchRequest(100)
	for _, m := range request.Messages {
		m.Headers = []*bridgev1.Header{{Name: "content-type", Value: []byte("text/plain")}, {Name: "trace", Value: []byte("0123456789")}}
	}
	data, common := mem.BufferSlice{mem.SliceBuffer(encodeRequest(b, request))}, encoding.GetCodecV2("proto")
	for name, c := range map[string]encoding.CodecV2{"library": common, "wire": codec{common}} {
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
