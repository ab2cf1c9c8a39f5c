package grpclistener

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// Timeline implements bridgev1.BridgeServiceServer.
func (b *bridge) Timeline(ctx context.Context, request *bridgev1.TimelineRequest) (*bridgev1.TimelineResponse, error) {
	query, err := timelineQuery(request)
	if err != nil {
		return nil, statusOf(inRequest(err, listPath), nil)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := b.in.Timeline(ctx, query)
	if err != nil {
		return nil, statusOf(inRequest(err, listPath), nil)
	}
	response := &bridgev1.TimelineResponse{From: timestamp(found.From), To: timestamp(found.To), Step: durationpb.New(found.Step),
		Before: int64(found.Before), After: int64(found.After), Steps: make([]*bridgev1.TimelineStep, len(found.Due))}
	for n, due := range found.Due {
		response.Steps[n] = &bridgev1.TimelineStep{At: timestamp(found.At(n)), Due: int64(due)}
	}
	return response, nil
}

// timelineQuery reads what is counted; core checks it.
func timelineQuery(request *bridgev1.TimelineRequest) (query core.TimelineQuery, err error) {
	query = core.TimelineQuery{Sinks: request.Sinks, Step: core.DefaultStep}
	if request.Step != nil {
		if query.Step, err = duration("step", request.Step); err != nil {
			return query, err
		}
	}
	if query.From, err = moment("from", request.From); err != nil {
		return query, err
	}
	query.To, err = moment("to", request.To)
	return query, err
}
