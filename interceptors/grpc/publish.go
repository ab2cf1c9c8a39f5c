package grpclistener

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// Publish implements bridgev1.BridgeServiceServer.
func (b *bridge) Publish(ctx context.Context, request *bridgev1.PublishRequest) (*bridgev1.PublishResponse, error) {
	if len(request.Messages) == 0 {
		return nil, b.refuse(ctx, apierror.Of(core.Invalidf("messages", "are missing")), nothingDone)
	}
	if err := b.checkCount(ctx, request.Messages); err != nil {
		return nil, err
	}
	receipts := b.accept(ctx, request.Messages)
	if len(receipts) == 1 && receipts[0].Err != nil {
		return nil, publishError(receipts[0])
	}
	return &bridgev1.PublishResponse{Results: results(receipts)}, nil
}

// checkCount bounds the messages of one request.
func (b *bridge) checkCount(ctx context.Context, messages []*bridgev1.Message) error {
	if len(messages) > b.config.MaxBatch { // the codec has left out what is more
		return b.refuse(ctx, apierror.Of(core.Invalidf("messages", "are more than %d, which are allowed in one request", b.config.MaxBatch)), nothingDone)
	}
	return nil
}

// accept has the good messages stored in one go, and returns a receipt for each,
// in order.
func (b *bridge) accept(ctx context.Context, given []*bridgev1.Message) []core.Receipt {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	values := make([]core.Message, len(given))
	messages := make([]*core.Message, 0, len(given))
	var refused map[int]error // mostly none is
	limits := b.in.Limits()
	decoder := decoder{limits}
	for n, p := range given {
		if err := decoder.decode(p, &values[n]); err != nil {
			if refused == nil {
				refused = make(map[int]error)
			}
			refused[n] = err
			b.in.Refused(ctx, apierror.Of(err).Code)
			continue
		}
		messages = append(messages, &values[n])
	}
	limits.AddTrace(messages, metadata.ValueFromIncomingContext(ctx, "traceparent"), metadata.ValueFromIncomingContext(ctx, "tracestate"))
	receipts := b.in.Accept(ctx, messages...)
	if refused == nil {
		return receipts
	}
	all := make([]core.Receipt, len(given))
	for n := range given {
		if err := refused[n]; err != nil {
			all[n] = core.Receipt{ID: values[n].ID, Sink: values[n].Sink, Err: err}
			continue
		}
		all[n], receipts = receipts[0], receipts[1:]
	}
	return all
}
