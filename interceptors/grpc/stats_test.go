package grpclistener

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// described is a sink that reports about itself.
type described struct{ core.Sink }

func (described) Describe() map[string]string { return map[string]string{"state": "by \xff"} }

func TestStats(t *testing.T) {
	since := time.UnixMilli(1)
	in := core.NewBridge(memstore.New(memstore.Config{Buckets: 2}), core.Options{}, &core.Dispatcher{Name: "plugged", Sink: described{}}, &core.Dispatcher{Name: "plain"}).Interceptor
	in.SetAbout(core.About{Version: "v1", Config: "c0ffee", Listeners: map[string]string{"grpc": "127.0.0.1:1"}, Sources: func() []core.SourceReport {
		return []core.SourceReport{
			{Source: "a", Parked: 5, Duplicates: 4, Rejected: 3, Skipped: 2, Retried: 1},
			{Source: "b", Lag: -1, LagTime: -1, Trouble: "a bad record", Since: since, Stopped: true},
			{Source: "c", Lag: 7, LagTime: time.Minute, Trouble: "no \xff broker", Since: since},
		}
	}})
	addr, _, _ := start(t, Config{}, in)
	client := bridgev1.NewBridgeServiceClient(dial(t, addr))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	waits, bad := hourly("waits"), hourly("bad")
	waits.Sink, bad.Sink, bad.Topic = "plain", "plain", "not a topic"
	published, err := client.Publish(ctx, &bridgev1.PublishRequest{Messages: []*bridgev1.Message{waits, waits, bad}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Stats(ctx, &bridgev1.StatsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	zero := &durationpb.Duration{}
	recent := func(counts *bridgev1.SinkTotals) *bridgev1.SinkRecent {
		return &bridgev1.SinkRecent{Totals: counts, Lateness: &bridgev1.Lateness{P50: zero, P99: zero, Max: zero}}
	}
	none, some := &bridgev1.SinkTotals{}, &bridgev1.SinkTotals{Accepted: 1, Repeated: 1, Refused: 1}
	want := &bridgev1.StatsResponse{
		Durability: "memory", Instances: 1,
		Sinks: []*bridgev1.SinkStats{
			{Sink: "plugged", Buckets: 2, Details: map[string]string{"state": "by \uFFFD"}, SinceStart: none,
				Last_1M: recent(none), Last_5M: recent(none), Last_60M: recent(none)},
			{Sink: "plain", Buckets: 2, Scheduled: 1, NextDue: published.Results[0].DeliverAt, SinceStart: some,
				Last_1M: recent(some), Last_5M: recent(some), Last_60M: recent(some)},
		},
		Sources: []*bridgev1.SourceStats{
			{Instance: "memory", Source: "a", Parked: 5, Duplicates: 4, Rejected: 3, Skipped: 2, Retried: 1, Lag: proto.Int64(0), LagTime: zero, State: bridgev1.SourceState_SOURCE_STATE_RUNNING},
			{Instance: "memory", Source: "b", State: bridgev1.SourceState_SOURCE_STATE_STOPPED, Trouble: "a bad record", TroubleSince: timestamppb.New(since)},
			{Instance: "memory", Source: "c", Lag: proto.Int64(7), LagTime: durationpb.New(time.Minute), State: bridgev1.SourceState_SOURCE_STATE_RETRYING, Trouble: "no \uFFFD broker", TroubleSince: timestamppb.New(since)},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if named, err := client.Stats(ctx, &bridgev1.StatsRequest{Instance: "memory"}); err != nil || !proto.Equal(named, got) {
		t.Errorf("of the only instance: %v, %v", named, err)
	}
	_, err = client.Stats(ctx, &bridgev1.StatsRequest{Instance: "another"})
	if r := refusalOf(t, err); r.code != codes.InvalidArgument || r.field != "instance" {
		t.Errorf("of another instance: %+v", r)
	}
	all, err := client.Instances(ctx, &bridgev1.InstancesRequest{})
	if err != nil || len(all.Instances) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	wantInstance := &bridgev1.Instance{Instance: "memory", Self: true, Age: zero, Version: "v1", Config: "c0ffee", Listeners: map[string]string{"grpc": "127.0.0.1:1"},
		StartTime: all.Instances[0].StartTime, Sources: want.Sources, Sinks: []*bridgev1.InstanceSink{
			{Sink: "plugged", SinceStart: none, Last_1M: recent(none), Last_5M: recent(none), Last_60M: recent(none)},
			{Sink: "plain", SinceStart: some, Last_1M: recent(some), Last_5M: recent(some), Last_60M: recent(some)},
		}}
	for _, source := range wantInstance.Sources {
		source.Instance = ""
	}
	if diff := cmp.Diff(wantInstance, all.Instances[0], protocmp.Transform()); diff != "" || !all.Instances[0].StartTime.IsValid() {
		t.Error(diff)
	}
}

// TestStatsHaveEveryCount: no count of core is left out or exchanged for another.
func TestStatsHaveEveryCount(t *testing.T) {
	at := time.UnixMilli(5)
	counts := core.Counts{Accepted: 6, Republished: 7, Repeated: 8, Refused: 9, Delivered: 10, Retried: 11, Unknown: 12, Dead: 13, Expired: 14}
	last := func(n time.Duration) core.Recent {
		return core.Recent{Counts: counts, LatenessP50: n, LatenessP99: n + 1, LatenessMax: n + 2}
	}
	work := core.Work{Sink: "s", Buckets: 5, InFlight: 15, Totals: counts, Last1m: last(1), Last5m: last(5), Last60m: last(60),
		Paused: "why", PausedSince: at.Add(time.Second), Details: map[string]string{"a": "b"}}
	got := sinkStatsOf(core.SinkReport{
		SinkStats: core.SinkStats{Sink: "s", Scheduled: 1, Due: 2, Dead: 3, Buckets: 4, Owned: 5, NextDue: at, Retrying: 16},
		Work:      work,
	})
	totals := &bridgev1.SinkTotals{Accepted: 6, Republished: 7, Repeated: 8, Refused: 9, Delivered: 10, Retried: 11, Unknown: 12, Dead: 13, Expired: 14}
	recent := func(n time.Duration) *bridgev1.SinkRecent {
		return &bridgev1.SinkRecent{Totals: totals, Lateness: &bridgev1.Lateness{P50: durationpb.New(n), P99: durationpb.New(n + 1), Max: durationpb.New(n + 2)}}
	}
	want := &bridgev1.SinkStats{
		Sink: "s", Scheduled: 1, Due: 2, Dead: 3, Buckets: 4, Owned: 5, NextDue: timestamppb.New(at), InFlight: 15, Retrying: 16,
		Paused: "why", PausedSince: timestamppb.New(at.Add(time.Second)), Details: map[string]string{"a": "b"},
		SinceStart: totals, Last_1M: recent(1), Last_5M: recent(5), Last_60M: recent(60),
	}
	sink := instanceOf(core.Instance{Sinks: []core.Work{work}}).Sinks[0]
	wantSink := &bridgev1.InstanceSink{Sink: "s", Owned: 5, InFlight: 15, Paused: "why", PausedSince: want.PausedSince,
		SinceStart: totals, Last_1M: recent(1), Last_5M: recent(5), Last_60M: recent(60)}
	if diff := cmp.Diff(wantSink, sink, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestStatsNeedAStoreThatCounts(t *testing.T) {
	f := serve(t, Config{}, &failing{})
	_, err := f.client.Stats(f.ctx(), &bridgev1.StatsRequest{})
	if r := refusalOf(t, err); r.code != codes.Unimplemented || r.reason != "not_supported" {
		t.Errorf("got %+v", r)
	}
}

func TestTimeline(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	for n, sink := range []string{"orders", "mails", "orders"} {
		m := hourly("")
		m.Sink, m.Delay = sink, durationpb.New(time.Duration(n+1)*time.Hour)
		f.mustPublish(m)
	}
	from := time.Now().Truncate(time.Hour).Add(30 * time.Minute)
	count := func(request *bridgev1.TimelineRequest) *bridgev1.TimelineResponse {
		got, err := f.client.Timeline(f.ctx(), request)
		if err != nil {
			t.Fatal(err)
		}
		sum := got.Before + got.After
		for n, step := range got.Steps {
			sum += step.Due
			if want := got.From.AsTime().Add(time.Duration(n) * got.Step.AsDuration()); !step.At.AsTime().Equal(want) {
				t.Errorf("step %d is at %s, want %s", n, step.At.AsTime(), want)
			}
		}
		if want := int64(3 - len(request.Sinks)); sum != want {
			t.Errorf("%v: %d in all, want %d", request, sum, want)
		}
		return got
	}
	if got := count(&bridgev1.TimelineRequest{}); len(got.Steps) != 60 || got.Step.AsDuration() != time.Minute || got.After < 2 {
		t.Errorf("by default: %v", got)
	}
	got := count(&bridgev1.TimelineRequest{Sinks: []string{"orders"}, Step: durationpb.New(2 * time.Hour), From: timestamppb.New(from), To: timestamppb.New(from.Add(3 * time.Hour))})
	if len(got.Steps) != 2 || !got.To.AsTime().Equal(from.Add(4*time.Hour)) || got.Before+got.After != 0 {
		t.Errorf("of one sink: %v", got)
	}
	for field, request := range map[string]*bridgev1.TimelineRequest{
		"step":  {Step: &durationpb.Duration{}},
		"from":  {From: &timestamppb.Timestamp{Seconds: -1}},
		"to":    {From: timestamppb.New(from), To: timestamppb.New(from)},
		"sinks": {Sinks: []string{"nobody"}},
	} {
		_, err := f.client.Timeline(f.ctx(), request)
		if r := refusalOf(t, err); r.code != codes.InvalidArgument || r.field != field {
			t.Errorf("%v: got %+v", request, r)
		}
	}
}
