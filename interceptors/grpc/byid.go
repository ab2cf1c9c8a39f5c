package grpclistener

import (
	"context"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// Get implements bridgev1.BridgeServiceServer.
func (b *bridge) Get(ctx context.Context, request *bridgev1.GetRequest) (*bridgev1.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entry, err := b.in.Get(ctx, refOf(request.Ref))
	if err != nil {
		return nil, statusOf(inRequest(err, refPath), nil)
	}
	return &bridgev1.GetResponse{Entry: entryOf(entry, true)}, nil
}

// Cancel implements bridgev1.BridgeServiceServer.
func (b *bridge) Cancel(ctx context.Context, request *bridgev1.CancelRequest) (*bridgev1.CancelResponse, error) {
	receipt, err := change(ctx, request.Ref, b.in.Cancel)
	return &bridgev1.CancelResponse{Receipt: receipt}, err
}

// Reschedule implements bridgev1.BridgeServiceServer.
func (b *bridge) Reschedule(ctx context.Context, request *bridgev1.RescheduleRequest) (*bridgev1.RescheduleResponse, error) {
	when, err := whenOf(request)
	if err != nil {
		b.in.Refused(ctx, apierror.Of(err).Code)
		return nil, changeError(core.Receipt{}, err)
	}
	receipt, err := change(ctx, request.Ref, func(ctx context.Context, ref core.Ref) (core.Receipt, error) {
		return b.in.Reschedule(ctx, ref, when)
	})
	return &bridgev1.RescheduleResponse{Receipt: receipt}, err
}

// DeliverNow implements bridgev1.BridgeServiceServer.
func (b *bridge) DeliverNow(ctx context.Context, request *bridgev1.DeliverNowRequest) (*bridgev1.DeliverNowResponse, error) {
	receipt, err := change(ctx, request.Ref, b.in.DeliverNow)
	return &bridgev1.DeliverNowResponse{Receipt: receipt}, err
}

// Redrive implements bridgev1.BridgeServiceServer.
func (b *bridge) Redrive(ctx context.Context, request *bridgev1.RedriveRequest) (*bridgev1.RedriveResponse, error) {
	receipt, err := change(ctx, request.Ref, b.in.Redrive)
	return &bridgev1.RedriveResponse{Receipt: receipt}, err
}

// Discard implements bridgev1.BridgeServiceServer.
func (b *bridge) Discard(ctx context.Context, request *bridgev1.DiscardRequest) (*bridgev1.DiscardResponse, error) {
	receipt, err := change(ctx, request.Ref, b.in.Discard)
	return &bridgev1.DiscardResponse{Receipt: receipt}, err
}

// change serves a call by id that answers with a receipt. With an error the
// library does not look at the response.
func change(ctx context.Context, p *bridgev1.Ref, act func(context.Context, core.Ref) (core.Receipt, error)) (*bridgev1.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	receipt, err := act(ctx, refOf(p))
	if err != nil {
		return nil, changeError(receipt, err)
	}
	return receiptOf(receipt), nil
}

// refOf reads which message a call by id means; core checks it.
func refOf(p *bridgev1.Ref) core.Ref {
	return core.Ref{ID: p.GetId(), Sink: p.GetSink(), Key: p.GetKey()}
}

// refPath is the path of a field in a request with a Ref.
func refPath(field string) string {
	switch field {
	case "id", "sink", "key":
		return "ref." + field
	}
	return field
}

func whenOf(request *bridgev1.RescheduleRequest) (when core.When, err error) {
	if err := checkWhen(request.Delay, request.DeliverAt); err != nil {
		return when, err
	}
	if when.After, err = duration("delay", request.Delay); err != nil {
		return when, err
	}
	when.At, err = moment("deliver_at", request.DeliverAt)
	return when, err
}
