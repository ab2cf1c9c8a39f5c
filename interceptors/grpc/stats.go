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
func (b *bridge) Stats(ctx context.Context, _ *bridgev1.StatsRequest) (*bridgev1.StatsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reports, err := b.in.Stats(ctx)
	if err != nil {
		return nil, statusOf(apierror.Of(err), nil)
	}
	response := &bridgev1.StatsResponse{Durability: b.in.Durability(), Sinks: make([]*bridgev1.SinkStats, len(reports))}
	for n, report := range reports {
		response.Sinks[n] = sinkStatsOf(report)
	}
	if b.config.Sources != nil {
		for _, report := range b.config.Sources() {
			response.Sources = append(response.Sources, sourceStatsOf(report))
		}
	}
	return response, nil
}

func sinkStatsOf(r core.SinkReport) *bridgev1.SinkStats {
	stats := &bridgev1.SinkStats{
		Sink: r.Sink, Scheduled: int64(r.Scheduled), Due: int64(r.Due), Dead: int64(r.SinkStats.Dead),
		Buckets: int32(r.Buckets), Owned: int32(r.Owned), NextDue: timestamp(r.NextDue),
		Paused: text(r.Paused), PausedSince: timestamp(r.PausedSince), Details: texts(r.Details),
	}
	stats.SinceStart = &bridgev1.SinkTotals{
		Accepted: r.Accepted, Republished: r.Republished, Repeated: r.Repeated, Refused: r.Refused, Delivered: r.Delivered,
		Retried: r.Retried, Unknown: r.Unknown, Dead: r.Totals.Dead, Expired: r.Expired,
		Lateness: &bridgev1.Lateness{P50: durationpb.New(r.LatenessP50), P99: durationpb.New(r.LatenessP99), Max: durationpb.New(r.LatenessMax)},
	}
	return stats
}

func sourceStatsOf(r core.SourceReport) *bridgev1.SourceStats {
	stats := &bridgev1.SourceStats{
		Source: r.Source, Parked: r.Parked, Duplicates: r.Duplicates, Rejected: r.Rejected, Skipped: r.Skipped, Retried: r.Retried,
		State:   bridgev1.SourceState(bridgev1.SourceState_value["SOURCE_STATE_"+strings.ToUpper(r.State())]),
		Trouble: text(r.Trouble), TroubleSince: timestamp(r.Since),
	}
	if r.Lag >= 0 {
		stats.Lag = &r.Lag
	}
	return stats
}
