package grpclistener

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// Stats implements bridgev1.BridgeServiceServer.
func (b *bridge) Stats(ctx context.Context, request *bridgev1.StatsRequest) (*bridgev1.StatsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stats, err := b.in.Stats(ctx, request.Instance)
	if err != nil {
		return nil, statusOf(apierror.Of(err), nil)
	}
	response := &bridgev1.StatsResponse{Durability: b.in.Durability(), Sinks: make([]*bridgev1.SinkStats, len(stats.Sinks)),
		Sources: sourceStatsOf(stats.Sources), Instances: int32(stats.Instances), Unreported: int32(stats.Unreported)}
	for n, report := range stats.Sinks {
		response.Sinks[n] = sinkStatsOf(report)
	}
	return response, nil
}

func sinkStatsOf(r core.SinkReport) *bridgev1.SinkStats {
	return &bridgev1.SinkStats{
		Sink: r.Sink, Scheduled: int64(r.Scheduled), Due: int64(r.Due), Retrying: int64(r.Retrying), Dead: int64(r.Dead),
		Buckets: int32(r.Buckets), Owned: int32(r.Owned), NextDue: timestamp(r.NextDue),
		Paused: text(r.Work.Paused), PausedSince: timestamp(r.Work.PausedSince), Details: texts(r.Work.Details), InFlight: r.Work.InFlight,
		SinceStart: totalsOf(r.Work.Totals), Last_1M: recentOf(r.Work.Last1m), Last_5M: recentOf(r.Work.Last5m), Last_60M: recentOf(r.Work.Last60m),
	}
}

func totalsOf(c core.Counts) *bridgev1.SinkTotals {
	return &bridgev1.SinkTotals{
		Accepted: c.Accepted, Republished: c.Republished, Repeated: c.Repeated, Refused: c.Refused, Delivered: c.Delivered,
		Retried: c.Retried, Unknown: c.Unknown, Dead: c.Dead, Expired: c.Expired,
	}
}

func recentOf(r core.Recent) *bridgev1.SinkRecent {
	return &bridgev1.SinkRecent{Totals: totalsOf(r.Counts),
		Lateness: &bridgev1.Lateness{P50: durationpb.New(r.LatenessP50), P99: durationpb.New(r.LatenessP99), Max: durationpb.New(r.LatenessMax)}}
}

func sourceStatsOf(reports []core.SourceReport) []*bridgev1.SourceStats {
	sources := make([]*bridgev1.SourceStats, len(reports))
	for n, r := range reports {
		sources[n] = &bridgev1.SourceStats{
			Instance: text(r.Instance), Source: r.Source, Parked: r.Parked, Duplicates: r.Duplicates, Rejected: r.Rejected, Skipped: r.Skipped, Retried: r.Retried,
			State:   bridgev1.SourceState(bridgev1.SourceState_value["SOURCE_STATE_"+strings.ToUpper(r.State())]),
			Trouble: text(r.Trouble), TroubleSince: timestamp(r.Since),
		}
		if r.Lag >= 0 {
			sources[n].Lag = &r.Lag
		}
		if r.LagTime >= 0 {
			sources[n].LagTime = durationpb.New(r.LagTime)
		}
	}
	return sources
}

// Instances implements bridgev1.BridgeServiceServer.
func (b *bridge) Instances(ctx context.Context, _ *bridgev1.InstancesRequest) (*bridgev1.InstancesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := b.in.Instances(ctx)
	if err != nil {
		return nil, statusOf(apierror.Of(err), nil)
	}
	response := &bridgev1.InstancesResponse{Instances: make([]*bridgev1.Instance, len(all))}
	for n, one := range all {
		response.Instances[n] = instanceOf(one)
	}
	return response, nil
}

func instanceOf(one core.Instance) *bridgev1.Instance {
	instance := &bridgev1.Instance{Instance: text(one.Name), Self: one.Self, Version: text(one.Version), Config: text(one.Config),
		StartTime: timestamp(one.Started), Listeners: texts(one.Listeners), Sources: sourceStatsOf(one.Sources), Omitted: int32(one.Omitted)}
	if one.Age >= 0 {
		instance.Age = durationpb.New(one.Age)
	}
	for _, w := range one.Sinks {
		instance.Sinks = append(instance.Sinks, &bridgev1.InstanceSink{
			Sink: w.Sink, Owned: int32(w.Buckets), InFlight: w.InFlight, Paused: text(w.Paused), PausedSince: timestamp(w.PausedSince),
			SinceStart: totalsOf(w.Totals), Last_1M: recentOf(w.Last1m), Last_5M: recentOf(w.Last5m), Last_60M: recentOf(w.Last60m),
		})
	}
	return instance
}
