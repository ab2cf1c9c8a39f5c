package grpclistener

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

func TestPublishKeepsEveryByte(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	every := make([]byte, 256)
	for n := range every {
		every[n] = byte(n)
	}
	given := &bridgev1.Message{
		Id: "order/42", Sink: "mails", Topic: "reminders", Key: every, Body: every, Priority: 7,
		Headers: []*bridgev1.Header{{Name: "b", Value: every}, {Name: "a", Value: []byte("1")}, {Name: "b"}, {Name: "b", Value: []byte{}}},
		Options: map[string]string{"retry.max_attempts": "3"}, DeliverAt: timestamppb.New(at), Ttl: durationpb.New(2 * time.Hour),
	}
	result := f.mustPublish(given)
	if result.Id != "order/42" || result.Sink != "mails" || result.State != bridgev1.State_STATE_SCHEDULED ||
		!result.DeliverAt.AsTime().Equal(at) || result.Duplicate || result.Durability != "memory" || result.Error != nil {
		t.Errorf("got %v", result)
	}
	parked, _ := f.store.seen()
	want := &core.Message{
		ID: "order/42", Sink: "mails", Topic: "reminders", Key: every, Body: every, Priority: 7,
		Headers: []core.Header{{Name: "b", Value: every}, {Name: "a", Value: []byte("1")}, {Name: "b"}, {Name: "b", Value: []byte{}}},
		Options: map[string]string{"retry.max_attempts": "3"}, DeliverAt: at, TTL: 2 * time.Hour,
	}
	if diff := cmp.Diff(want, parked[0]); diff != "" {
		t.Error(diff)
	}
}

func TestTraceOfMetadata(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	f := newFixture(t, Config{})
	ctx := metadata.AppendToOutgoingContext(f.ctx(), "traceparent", parent, "tracestate", "a=b")
	own := hourly("b")
	own.Headers = []*bridgev1.Header{{Name: "Traceparent", Value: []byte("own")}}
	request := []*bridgev1.Message{hourly("a"), own}
	if _, err := f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: request}); err != nil {
		t.Fatal(err)
	}
	stream, err := f.client.PublishStream(ctx)
	if err == nil {
		err = stream.Send(&bridgev1.PublishStreamRequest{Messages: request[:1]})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	added := []core.Header{{Name: "traceparent", Value: []byte(parent)}, {Name: "tracestate", Value: []byte("a=b")}}
	parked, _ := f.store.seen()
	for n, want := range [][]core.Header{added, {{Name: "Traceparent", Value: []byte("own")}}, added} {
		if diff := cmp.Diff(want, parked[n].Headers); diff != "" {
			t.Error(n, diff)
		}
	}
}

func TestAbsentAndEmptyDiffer(t *testing.T) {
	for name, test := range map[string]struct{ key, body []byte }{
		"absent": {nil, nil}, "empty": {[]byte{}, []byte{}}, "key only": {[]byte{}, nil}, "body only": {nil, []byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			m := hourly("a")
			m.Key, m.Body = test.key, test.body
			f.mustPublish(m)
			parked, _ := f.store.seen()
			if got := parked[0]; !cmp.Equal(got.Key, test.key) || !cmp.Equal(got.Body, test.body) {
				t.Errorf("key %#v, body %#v", got.Key, got.Body)
			}
			response, err := f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: &bridgev1.Ref{Id: "a", Key: test.key}})
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Entry.Message; !cmp.Equal(got.Key, test.key) || !cmp.Equal(got.Body, test.body) {
				t.Errorf("given back key %#v, body %#v", got.Key, got.Body)
			}
		})
	}
}

func TestTimesAreRoundedUp(t *testing.T) {
	f := newFixture(t, Config{})
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	m := hourly("a")
	m.Delay, m.DeliverAt = nil, timestamppb.New(at.Add(1))
	if got := f.mustPublish(m).DeliverAt.AsTime(); !got.Equal(at.Add(time.Millisecond)) {
		t.Errorf("due at %s, want %s and a millisecond", got, at)
	}
	m = hourly("b")
	m.Delay = durationpb.New(time.Hour + 1)
	f.mustPublish(m)
	if parked, _ := f.store.seen(); parked[1].Delay != time.Hour+time.Millisecond {
		t.Errorf("delay %s", parked[1].Delay)
	}
}

func TestResultsAreInOrder(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	bad := hourly("bad")
	bad.Sink = "nobody"
	neither := hourly("neither")
	neither.Sink, neither.Delay = "orders", nil
	good, other := hourly("good"), hourly("good")
	good.Sink, other.Sink, other.Body = "orders", "orders", []byte("other")
	results, err := f.publish(bad, good, neither, other, good)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprintf("%s %s %s %s %t", r.Id, r.GetError().GetCode(), r.GetError().GetField(), r.State, r.Duplicate))
	}
	want := []string{
		"bad invalid sink STATE_UNSPECIFIED false",
		"good   STATE_SCHEDULED false",
		"neither invalid deliver_at STATE_UNSPECIFIED false",
		"good conflict  STATE_UNSPECIFIED false",
		"good   STATE_SCHEDULED true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, calls := f.store.seen(); calls != 1 {
		t.Errorf("%d calls of the store", calls)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	f := newFixture(t, Config{MaxBatch: 2})
	_, err := f.publish()
	if r := f.refused(err, codes.InvalidArgument, "invalid"); r.field != "messages" || r.details["stored"] != "false" {
		t.Errorf("got %+v", r)
	}
	_, err = f.publish(hourly("a"), hourly("b"), hourly("c"))
	if r := f.refused(err, codes.InvalidArgument, "invalid"); r.field != "messages" {
		t.Errorf("got %+v", r)
	}
}

// failing is a store whose calls all end with err.
type failing struct {
	core.Store
	err   error
	panic bool
}

func (f *failing) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	if f.panic {
		panic("told to")
	}
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: f.err}
	}
	return receipts
}

func (f *failing) Get(context.Context, core.Ref) (core.Entry, error) { return core.Entry{}, f.err }

func (f *failing) Cancel(context.Context, core.Ref) (core.Receipt, error) {
	return core.Receipt{State: core.Delivering}, f.err
}

func (f *failing) Health(context.Context) error { return f.err }

func TestStatusOfEachError(t *testing.T) {
	tests := []struct {
		err     error
		code    codes.Code
		reason  string
		outcome string
		wait    time.Duration
	}{
		{core.ErrConflict, codes.AlreadyExists, "conflict", "false", 0},
		{core.ErrNotFound, codes.NotFound, "not_found", "false", 0},
		{core.ErrTooLate, codes.FailedPrecondition, "too_late", "false", 0},
		{core.ErrAmbiguous, codes.FailedPrecondition, "ambiguous", "false", 0},
		{core.ErrBadCursor, codes.InvalidArgument, "bad_cursor", "false", 0},
		{core.ErrNoInspector, codes.Unimplemented, "not_supported", "false", 0},
		{fmt.Errorf("park: %w", core.ErrUnavailable), codes.Unavailable, "unavailable", "false", time.Second},
		{fmt.Errorf("park: %w", core.ErrFull), codes.ResourceExhausted, "store_full", "false", 5 * time.Second},
		{fmt.Errorf("park: %w", core.ErrUnknown), codes.Unknown, "outcome_unknown", "unknown", time.Second},
		{errors.New("surprise"), codes.Unknown, "outcome_unknown", "unknown", time.Second},
		{&core.InvalidError{Field: "b\xff", Reason: "of a sink's \xff own"}, codes.InvalidArgument, "invalid", "false", 0},
	}
	for _, test := range tests {
		t.Run(strings.ToValidUTF8(test.err.Error(), "?"), func(t *testing.T) {
			f := serve(t, Config{}, &failing{err: test.err})
			_, err := f.publish(hourly("a"))
			r := refusalOf(t, err)
			if r.code != test.code || r.reason != test.reason || r.details["stored"] != test.outcome || r.wait != test.wait {
				t.Errorf("publish: got %+v", r)
			}
			if test.outcome == "unknown" && r.details["id"] != "a" {
				t.Errorf("publish: no id to try again with: %+v", r)
			}
			results, err := f.publish(hourly("a"), hourly("b"))
			if err != nil || len(results) != 2 || results[1].Error.GetCode() != test.reason || results[1].Id != "b" {
				t.Errorf("publish two: got %v %v", results, err)
			}
			_, err = f.client.Cancel(f.ctx(), &bridgev1.CancelRequest{Ref: &bridgev1.Ref{Id: "a"}})
			r = refusalOf(t, err)
			if r.code != test.code || r.reason != test.reason || r.details["changed"] != test.outcome {
				t.Errorf("cancel: got %+v", r)
			}
			if (r.details["state"] == "delivering") != (test.reason == "too_late") {
				t.Errorf("cancel: state in %+v", r)
			}
			_, err = f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: &bridgev1.Ref{Id: "a"}})
			if r = refusalOf(t, err); r.code != test.code || r.reason != test.reason {
				t.Errorf("get: got %+v", r)
			}
		})
	}
}

func TestTooLargeIsExhausted(t *testing.T) {
	f := newFixture(t, Config{})
	m := hourly("a")
	m.Body = make([]byte, 256<<10+1)
	_, err := f.publish(m)
	if r := f.refused(err, codes.ResourceExhausted, "too_large"); r.field != "messages[0].body" || r.details["stored"] != "false" {
		t.Errorf("got %+v", r)
	}
	m.Body = bytes.Repeat([]byte("b"), 256<<10)
	f.mustPublish(m)
}

func TestPanicIsSurvived(t *testing.T) {
	store := &failing{panic: true}
	f := serve(t, Config{}, store)
	_, err := f.publish(hourly("a"))
	if r := refusalOf(t, err); r.code != codes.Internal || r.reason != "internal" || r.details["stored"] != "unknown" {
		t.Errorf("got %+v", r)
	}
	stream := f.stream()
	f.send(stream, 1, hourly("a"))
	if _, err := stream.Recv(); refusalOf(t, err).reason != "internal" {
		t.Errorf("got %v", err)
	}
	store.panic, store.err = false, core.ErrConflict
	if _, err := f.publish(hourly("a")); refusalOf(t, err).reason != "conflict" {
		t.Errorf("got %v", err)
	}
}

// TestPublishedAgain: what was delivered and is published again, with the headers
// of that, is a new message.
func TestPublishedAgain(t *testing.T) {
	f := newFixture(t, Config{})
	headers := []*bridgev1.Header{{Name: "delaybridge-id", Value: []byte("a")}, {Name: "delaybridge-attempt", Value: []byte("1")}, {Name: "x", Value: []byte("1")}}
	for range 64 - 1 { // as many as there may be, and ours
		headers = append(headers, &bridgev1.Header{Name: "h", Value: []byte("v")})
	}
	response, err := f.client.Publish(t.Context(), &bridgev1.PublishRequest{Messages: []*bridgev1.Message{
		{Id: "a", Topic: "t", Delay: durationpb.New(time.Hour), Headers: headers}}})
	if err != nil {
		t.Fatal(err)
	}
	parked, _ := f.store.seen()
	if m := parked[0]; m.ID != "a~1" || len(m.Headers) != 65 || m.Headers[0].Name != "x" || m.Headers[64].Name != core.HeaderHop || string(m.Headers[64].Value) != "1" {
		t.Errorf("parked %+v, answered %v", m, response)
	}
}
