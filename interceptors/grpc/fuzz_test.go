package grpclistener

import (
	"cmp"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// FuzzMessage: whatever comes in as a message becomes one that core can check,
// or an error that names a field; what core takes is what was sent, and can be
// shown again.
func FuzzMessage(f *testing.F) {
	for _, m := range []*bridgev1.Message{
		hourly("a"),
		{Id: "a", Sink: "orders", Topic: "t", Key: []byte{}, Body: []byte{0, 255}, Priority: -1, Options: map[string]string{"a": "b"},
			Headers: []*bridgev1.Header{{Name: "A"}, {Name: "a", Value: []byte{}}}, DeliverAt: timestamppb.Now(), Ttl: &durationpb.Duration{}},
		{Delay: &durationpb.Duration{Seconds: 1<<63 - 1, Nanos: -1}, DeliverAt: &timestamppb.Timestamp{Seconds: -62135596800}},
		{Topic: "t", Delay: &durationpb.Duration{Seconds: 9_223_372_036, Nanos: 854_775_807}, ExpiresAt: &timestamppb.Timestamp{Nanos: 2e9}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	limits := interceptor(nil, "orders").Limits()
	d := decoder{limits: limits}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, m := new(bridgev1.Message), new(core.Message)
		if proto.Unmarshal(raw, p) != nil {
			return
		}
		p.Sink = cmp.Or(p.Sink, "orders") // core has it so where there is no other
		err := d.decode(p, m)
		if err == nil {
			err = limits.Check(m, time.Now())
		}
		if err != nil {
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field == "" || len(invalid.Reason) > 300 {
				t.Fatalf("got %v", err)
			}
			if f := apierror.Of(err); !utf8.ValidString(f.Detail) || !utf8.ValidString(f.Field) {
				t.Fatalf("got %q", f)
			}
			return
		}
		if (p.Delay == nil) == (p.DeliverAt == nil) || p.Ttl != nil && p.ExpiresAt != nil || m.Delay < 0 || m.TTL < 0 {
			t.Fatalf("%v became %+v", p, m)
		}
		shown := entryOf(core.Entry{Message: m, State: core.Scheduled, BodySize: len(m.Body)}, true)
		if _, err := proto.Marshal(shown); err != nil {
			t.Fatal(err)
		}
		got := shown.Message
		got.Delay, got.Ttl = p.Delay, p.Ttl
		p.ProtoReflect().SetUnknown(nil)
		for _, h := range p.Headers {
			h.ProtoReflect().SetUnknown(nil)
		}
		for _, sub := range []proto.Message{p.Delay, p.DeliverAt, p.Ttl, p.ExpiresAt} {
			if sub.ProtoReflect().IsValid() {
				sub.ProtoReflect().SetUnknown(nil)
			}
		}
		if !proto.Equal(got, p) {
			t.Fatalf("%v became %v", p, got)
		}
	})
}
