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
	addr, _, _ := start(t, Config{Sources: func() []core.SourceReport {
		return []core.SourceReport{
			{Source: "a", Parked: 5, Duplicates: 4, Rejected: 3, Skipped: 2, Retried: 1},
			{Source: "b", Lag: -1, Trouble: "a bad record", Since: since, Stopped: true},
			{Source: "c", Lag: 7, Trouble: "no \xff broker", Since: since},
		}
	}}, in)
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
	none := &bridgev1.Lateness{P50: &durationpb.Duration{}, P99: &durationpb.Duration{}, Max: &durationpb.Duration{}}
	want := &bridgev1.StatsResponse{
		Durability: "memory",
		Sinks: []*bridgev1.SinkStats{
			{Sink: "plugged", Buckets: 2, Details: map[string]string{"state": "by \uFFFD"}, SinceStart: &bridgev1.SinkTotals{Lateness: none}},
			{Sink: "plain", Buckets: 2, Scheduled: 1, NextDue: published.Results[0].DeliverAt,
				SinceStart: &bridgev1.SinkTotals{Accepted: 1, Repeated: 1, Refused: 1, Lateness: none}},
		},
		Sources: []*bridgev1.SourceStats{
			{Source: "a", Parked: 5, Duplicates: 4, Rejected: 3, Skipped: 2, Retried: 1, Lag: proto.Int64(0), State: bridgev1.SourceState_SOURCE_STATE_RUNNING},
			{Source: "b", State: bridgev1.SourceState_SOURCE_STATE_STOPPED, Trouble: "a bad record", TroubleSince: timestamppb.New(since)},
			{Source: "c", Lag: proto.Int64(7), State: bridgev1.SourceState_SOURCE_STATE_RETRYING, Trouble: "no \uFFFD broker", TroubleSince: timestamppb.New(since)},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestStatsHaveEveryCount: no count of core is left out or exchanged for another.
func TestStatsHaveEveryCount(t *testing.T) {
	at := time.UnixMilli(5)
	got := sinkStatsOf(core.SinkReport{
		SinkStats: core.SinkStats{Sink: "s", Scheduled: 1, Due: 2, Dead: 3, Buckets: 4, Owned: 5, NextDue: at},
		Totals: core.Totals{Counts: core.Counts{Accepted: 6, Republished: 7, Repeated: 8, Refused: 9, Delivered: 10, Retried: 11, Unknown: 12, Dead: 13, Expired: 14},
			LatenessP50: 15, LatenessP99: 16, LatenessMax: 17},
		Paused: "why", PausedSince: at.Add(time.Second), Details: map[string]string{"a": "b"},
	})
	want := &bridgev1.SinkStats{
		Sink: "s", Scheduled: 1, Due: 2, Dead: 3, Buckets: 4, Owned: 5, NextDue: timestamppb.New(at),
		Paused: "why", PausedSince: timestamppb.New(at.Add(time.Second)), Details: map[string]string{"a": "b"},
		SinceStart: &bridgev1.SinkTotals{Accepted: 6, Republished: 7, Repeated: 8, Refused: 9, Delivered: 10, Retried: 11, Unknown: 12, Dead: 13, Expired: 14,
			Lateness: &bridgev1.Lateness{P50: durationpb.New(15), P99: durationpb.New(16), Max: durationpb.New(17)}},
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
