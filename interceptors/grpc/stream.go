package grpclistener

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

type publishStream = grpc.BidiStreamingServer[bridgev1.PublishStreamRequest, bridgev1.PublishStreamResponse]

// PublishStream implements bridgev1.BridgeServiceServer. It returns when all
// that was read has been answered and the client sends no more, the stream is
// old, or the server stops.
func (b *bridge) PublishStream(stream publishStream) error {
	in := newInbox(b.config.MaxBatch, b.config.MaxBatchBytes)
	b.readers.Go(func() { b.read(stream, in) })
	// The reader ends when this has returned and with it the stream's context.
	age := time.NewTimer(b.config.ConnectionAge)
	defer age.Stop()
	stopped := statusOf(apierror.Error{Code: apierror.Unavailable, Detail: "the stream has ended; continue with another. Messages without a response were not stored"}, nothingDone)
	for {
		requests, err := in.take(b.stopping, age.C, stopped)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := b.answer(stream, requests); err != nil {
			return err
		}
	}
}

// read fills the inbox until the stream or the inbox ends.
func (b *bridge) read(stream publishStream, in *inbox) {
	for {
		request, err := stream.Recv()
		if err == nil {
			err = b.checkCount(stream.Context(), request.Messages)
		}
		if err != nil {
			in.end(err)
			return
		}
		if !in.put(stream.Context(), request) {
			return
		}
	}
}

// answer has the messages of several requests stored in one go, and sends each
// request its response.
func (b *bridge) answer(stream publishStream, requests []*bridgev1.PublishStreamRequest) error {
	answers := results(b.accept(stream.Context(), gather(requests)))
	for _, request := range requests {
		n := len(request.Messages)
		if err := stream.Send(&bridgev1.PublishStreamResponse{Sequence: request.Sequence, Results: answers[:n]}); err != nil {
			return err
		}
		answers = answers[n:]
	}
	return nil
}

func gather(requests []*bridgev1.PublishStreamRequest) []*bridgev1.Message {
	if len(requests) == 1 {
		return requests[0].Messages
	}
	n := 0
	for _, request := range requests {
		n += len(request.Messages)
	}
	messages := make([]*bridgev1.Message, 0, n)
	for _, request := range requests {
		messages = append(messages, request.Messages...)
	}
	return messages
}
