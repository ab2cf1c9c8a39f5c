package grpclistener

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

func ref(id string) *bridgev1.Ref { return &bridgev1.Ref{Id: id} }

func TestCancel(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustPublish(hourly("a"))
	response, err := f.client.Cancel(f.ctx(), &bridgev1.CancelRequest{Ref: ref("a")})
	if err != nil {
		t.Fatal(err)
	}
	r := response.Receipt
	if r.Id != "a" || r.Sink != "orders" || r.State != bridgev1.State_STATE_CANCELLED || r.MayHaveBeenSent || r.Attempt != 0 {
		t.Errorf("got %v", r)
	}
	_, err = f.client.Cancel(f.ctx(), &bridgev1.CancelRequest{Ref: ref("a")})
	if r := refusalOf(t, err); r.code != codes.FailedPrecondition || r.reason != "too_late" || r.details["state"] != "cancelled" || r.details["changed"] != "false" {
		t.Errorf("got %v", err)
	}
	got, err := f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: ref("a")})
	if err != nil {
		t.Fatal(err)
	}
	want := &bridgev1.Entry{Message: &bridgev1.Message{Id: "a", Sink: "orders"}, State: bridgev1.State_STATE_CANCELLED, Due: got.Entry.Due}
	if diff := cmp.Diff(want, got.Entry, protocmp.Transform()); diff != "" || got.Entry.Due == nil {
		t.Error(diff)
	}
}

func TestRescheduleAndDeliverNow(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustPublish(hourly("a"))
	at := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Millisecond)
	moved, err := f.client.Reschedule(f.ctx(), &bridgev1.RescheduleRequest{Ref: ref("a"), DeliverAt: timestamppb.New(at)})
	if err != nil || !moved.Receipt.DeliverAt.AsTime().Equal(at) || moved.Receipt.Durability != "memory" {
		t.Errorf("got %v %v", moved, err)
	}
	moved, err = f.client.Reschedule(f.ctx(), &bridgev1.RescheduleRequest{Ref: ref("a"), Delay: durationpb.New(3 * time.Hour)})
	if err != nil || moved.Receipt.DeliverAt.AsTime().Before(at) {
		t.Errorf("got %v %v", moved, err)
	}
	now, err := f.client.DeliverNow(f.ctx(), &bridgev1.DeliverNowRequest{Ref: ref("a")})
	if err != nil || now.Receipt.DeliverAt.AsTime().After(time.Now().Add(time.Minute)) {
		t.Errorf("got %v %v", now, err)
	}
	for name, request := range map[string]*bridgev1.RescheduleRequest{
		"neither":  {Ref: ref("a")},
		"both":     {Ref: ref("a"), Delay: durationpb.New(time.Hour), DeliverAt: timestamppb.New(at)},
		"past":     {Ref: ref("a"), DeliverAt: timestamppb.New(at.AddDate(-1, 0, 0))},
		"no time":  {Ref: ref("a"), DeliverAt: &timestamppb.Timestamp{Nanos: 2e9}},
		"not 1969": {Ref: ref("a"), DeliverAt: &timestamppb.Timestamp{Seconds: -1}},
	} {
		_, err := f.client.Reschedule(f.ctx(), request)
		if r := refusalOf(t, err); r.code != codes.InvalidArgument || r.field != "deliver_at" || r.details["changed"] != "false" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err = f.client.Reschedule(f.ctx(), &bridgev1.RescheduleRequest{Ref: ref("a"), Delay: &durationpb.Duration{Seconds: 1, Nanos: -1}})
	if r := refusalOf(t, err); r.field != "delay" {
		t.Errorf("got %v", err)
	}
}

func TestCallsThatNameNothing(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	a, b := hourly("twice"), hourly("twice")
	a.Sink, b.Sink = "orders", "mails"
	if _, err := f.publish(a, b); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ref           *bridgev1.Ref
		code          codes.Code
		reason, field string
	}{
		"absent":       {nil, codes.InvalidArgument, "invalid", "ref.id"},
		"empty":        {ref(""), codes.InvalidArgument, "invalid", "ref.id"},
		"bad id":       {ref("*"), codes.InvalidArgument, "invalid", "ref.id"},
		"unknown":      {ref("unknown"), codes.NotFound, "not_found", ""},
		"unknown sink": {&bridgev1.Ref{Id: "twice", Sink: "x"}, codes.InvalidArgument, "invalid", "ref.sink"},
		"two sinks":    {ref("twice"), codes.FailedPrecondition, "ambiguous", ""},
		"long key":     {&bridgev1.Ref{Id: "twice", Key: make([]byte, 1025)}, codes.InvalidArgument, "invalid", "ref.key"},
	}
	for name, test := range tests {
		calls := map[string]func() error{
			"Get":    func() error { _, err := f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: test.ref}); return err },
			"Cancel": func() error { _, err := f.client.Cancel(f.ctx(), &bridgev1.CancelRequest{Ref: test.ref}); return err },
			"DeliverNow": func() error {
				_, err := f.client.DeliverNow(f.ctx(), &bridgev1.DeliverNowRequest{Ref: test.ref})
				return err
			},
			"Redrive": func() error { _, err := f.client.Redrive(f.ctx(), &bridgev1.RedriveRequest{Ref: test.ref}); return err },
			"Discard": func() error { _, err := f.client.Discard(f.ctx(), &bridgev1.DiscardRequest{Ref: test.ref}); return err },
			"Reschedule": func() error {
				_, err := f.client.Reschedule(f.ctx(), &bridgev1.RescheduleRequest{Ref: test.ref, Delay: durationpb.New(1)})
				return err
			},
		}
		for method, call := range calls {
			r := refusalOf(t, call())
			if r.code != test.code || r.reason != test.reason || r.field != test.field || (r.details["changed"] != "false") != (method == "Get") {
				t.Errorf("%s, %s: got %+v", method, name, r)
			}
		}
	}
	one, err := f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: &bridgev1.Ref{Id: "twice", Sink: "mails"}})
	if err != nil || one.Entry.Message.Sink != "mails" {
		t.Errorf("got %v %v", one, err)
	}
}

// bury makes dead letters of what is due.
func (f *fixture) bury(ids ...string) {
	f.Helper()
	for _, id := range ids {
		m := hourly(id)
		m.Delay = &durationpb.Duration{}
		m.Options = map[string]string{"a": "b"}
		f.mustPublish(m)
	}
	ctx, cancel := context.WithCancel(f.ctx())
	defer cancel()
	left := len(ids)
	err := f.store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error {
		for left > 0 {
			batch, err := b.Take(ctx, 10)
			if err != nil {
				return err
			}
			var outcomes []core.Outcome
			for _, m := range batch.Messages {
				outcomes = append(outcomes, core.Outcome{ID: m.ID, State: core.Dead, Attempts: 3, Reason: "refused", Error: "by \xff broker"})
			}
			if err := b.Settle(ctx, outcomes...); err != nil {
				return err
			}
			left -= len(outcomes)
		}
		cancel()
		<-ctx.Done()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.Fatal(err)
	}
}

func TestDeadLetters(t *testing.T) {
	f := serve(t, Config{}, memstore.New(memstore.Config{Buckets: 1}))
	f.bury("a", "b")
	f.mustPublish(hourly("waits"))
	dead, err := f.client.List(f.ctx(), &bridgev1.ListRequest{States: []bridgev1.State{bridgev1.State_STATE_DEAD, bridgev1.State_STATE_EXPIRED}})
	if err != nil || len(dead.Entries) != 2 {
		t.Fatalf("got %v %v", dead, err)
	}
	e := dead.Entries[0]
	if e.State != bridgev1.State_STATE_DEAD || e.Reason != "refused" || e.Error != "by \uFFFD broker" || e.Attempt != 3 || !e.MayHaveBeenSent ||
		e.BodySize != 1 || e.Message.Body != nil || e.Message.Options["a"] != "b" {
		t.Errorf("got %v", e)
	}
	_, err = f.client.Cancel(f.ctx(), &bridgev1.CancelRequest{Ref: ref("a")})
	if r := refusalOf(t, err); r.reason != "too_late" || r.details["state"] != "dead" {
		t.Errorf("got %v", err)
	}
	redriven, err := f.client.Redrive(f.ctx(), &bridgev1.RedriveRequest{Ref: ref("a")})
	if err != nil || redriven.Receipt.State != bridgev1.State_STATE_SCHEDULED || redriven.Receipt.Attempt != 0 {
		t.Errorf("got %v %v", redriven, err)
	}
	discarded, err := f.client.Discard(f.ctx(), &bridgev1.DiscardRequest{Ref: ref("b")})
	if err != nil || discarded.Receipt.State != bridgev1.State_STATE_DISCARDED {
		t.Errorf("got %v %v", discarded, err)
	}
	gone, err := f.client.Get(f.ctx(), &bridgev1.GetRequest{Ref: ref("b")})
	if want := (&bridgev1.Entry{Message: &bridgev1.Message{Id: "b", Sink: "orders"}, State: bridgev1.State_STATE_DISCARDED}); err != nil || gone.Entry.Due == nil {
		t.Errorf("got %v %v", gone, err)
	} else if diff := cmp.Diff(want, gone.Entry, protocmp.Transform(), protocmp.IgnoreFields(want, "due")); diff != "" {
		t.Error(diff)
	}
	_, err = f.client.Redrive(f.ctx(), &bridgev1.RedriveRequest{Ref: ref("waits")})
	if r := refusalOf(t, err); r.reason != "too_late" {
		t.Errorf("got %v", err)
	}
	dead, err = f.client.List(f.ctx(), &bridgev1.ListRequest{States: []bridgev1.State{bridgev1.State_STATE_DEAD}})
	if err != nil || len(dead.Entries) != 0 {
		t.Errorf("got %v %v", dead, err)
	}
}

func TestListPages(t *testing.T) {
	f := newFixture(t, Config{})
	for n := range 7 {
		m := hourly(fmt.Sprint(n))
		m.Delay = durationpb.New(time.Duration(n+1) * time.Hour)
		f.mustPublish(m)
	}
	request := &bridgev1.ListRequest{Sinks: []string{"orders"}, Topic: "t", PageSize: 3, DueAfter: timestamppb.New(time.Now().Add(90 * time.Minute)),
		DueBefore: timestamppb.New(time.Now().Add(390 * time.Minute))}
	var got []string
	for {
		page, err := f.client.List(f.ctx(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got = append(got, e.Message.Id)
			if e.Message.Body != nil || e.BodySize != 1 || e.Message.DeliverAt == nil {
				t.Errorf("got %v", e)
			}
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, got); diff != "" {
		t.Error(diff)
	}
}

// A page_size over the maximum is the maximum, and 0 is the default.
func TestPageSizes(t *testing.T) {
	f := newFixture(t, Config{})
	messages := make([]*bridgev1.Message, core.MaxPage)
	for n := range messages {
		messages[n] = hourly(fmt.Sprint(n))
	}
	if _, err := f.publish(messages...); err != nil {
		t.Fatal(err)
	}
	if _, err := f.publish(hourly("one"), hourly("more")); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int32]int{0: 100, 1: 1, core.MaxPage: core.MaxPage, core.MaxPage + 1: core.MaxPage, math.MaxInt32: core.MaxPage} {
		page, err := f.client.List(f.ctx(), &bridgev1.ListRequest{PageSize: size})
		if err != nil || len(page.Entries) != want || page.NextPageToken == "" {
			t.Errorf("page_size %d: %d entries, %v", size, len(page.GetEntries()), err)
		}
	}
}

func TestListRefuses(t *testing.T) {
	f := newFixture(t, Config{})
	tests := map[string]struct {
		request       *bridgev1.ListRequest
		reason, field string
	}{
		"page_size -1":  {&bridgev1.ListRequest{PageSize: -1}, "invalid", "page_size"},
		"sink":          {&bridgev1.ListRequest{Sinks: []string{"x"}}, "invalid", "sinks"},
		"page_token":    {&bridgev1.ListRequest{PageToken: "x"}, "bad_cursor", "page_token"},
		"state":         {&bridgev1.ListRequest{States: []bridgev1.State{99}}, "invalid", "states"},
		"no state":      {&bridgev1.ListRequest{States: []bridgev1.State{0}}, "invalid", "states"},
		"mixed states":  {&bridgev1.ListRequest{States: []bridgev1.State{1, 5}}, "invalid", "states"},
		"due_after":     {&bridgev1.ListRequest{DueAfter: &timestamppb.Timestamp{Nanos: -1}}, "invalid", "due_after"},
		"due_before":    {&bridgev1.ListRequest{DueBefore: &timestamppb.Timestamp{Seconds: -1}}, "invalid", "due_before"},
		"settled state": {&bridgev1.ListRequest{States: []bridgev1.State{4}}, "invalid", "states"},
	}
	for name, test := range tests {
		_, err := f.client.List(f.ctx(), test.request)
		if r := refusalOf(t, err); r.code != codes.InvalidArgument || r.reason != test.reason || r.field != test.field {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEveryStateHasItsName(t *testing.T) {
	seen := make(map[core.State]bool)
	for number, name := range bridgev1.State_name {
		state := coreState(bridgev1.State(number))
		if stateOf(state) != bridgev1.State(number) || seen[state] || number != 0 && "STATE_"+strings.ToUpper(string(state)) != name {
			t.Errorf("%s is %q", name, state)
		}
		seen[state] = true
	}
}
