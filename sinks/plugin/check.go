package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// maxCheck bounds the calls of one Check, while which a producer or a source waits.
const maxCheck = 10 * time.Second

// checkAll asks about a batch, in parts if it is large.
func (in *instance) checkAll(ctx context.Context, batch []*core.Message) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime(ctx))
	defer cancel()
	results, refused := make(core.BatchError, len(batch)), false
	for from := 0; from < len(batch); {
		to := from + checkBounds().fit(batch[from:])
		part, err := in.check(ctx, batch[from:to])
		if err != nil {
			return err
		}
		for n, fault := range part {
			if fault.GetReason() != "" {
				results[from+n], refused = invalidOf(fault), true
			}
		}
		from = to
	}
	if refused {
		return results
	}
	return nil
}

// checkTime is half of the time that is left: what is not this plugin's is still to
// be stored, and the answer to reach the producer.
func checkTime(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(maxCheck, time.Until(deadline)/2)
	}
	return maxCheck
}

// check is one call. It returns a fault for each message, or none if the plugin
// could not tell.
func (in *instance) check(ctx context.Context, part []*core.Message) ([]*sinkv1.Fault, error) {
	if in.gone() {
		return nil, nil
	}
	response, err := in.sink.Check(ctx, &sinkv1.CheckRequest{Messages: toProto(part)}, grpc.MaxCallRecvMsgSize(replyLimit(len(part))))
	switch {
	case err == nil && len(response.Faults) == len(part):
		in.checks.beat()
		return response.Faults, nil
	case ctx.Err() != nil, status.Code(err) == codes.DeadlineExceeded:
		in.unanswered(ctx, "Check", &in.checks)
		return nil, errors.New("the plugin did not answer Check in time")
	case err == nil:
		err = fmt.Errorf("it returned %d faults for %d messages", len(response.Faults), len(part))
	case in.gone(), status.Code(err) == codes.Unavailable: // its end is told elsewhere
		return nil, nil
	}
	if in.unsure.CompareAndSwap(false, true) {
		in.log.Error("plugin can't check messages, they are accepted unchecked", "err", clean(err.Error()))
	}
	return nil, nil
}

func invalidOf(fault *sinkv1.Fault) *core.InvalidError {
	return &core.InvalidError{Field: printableText(core.Shorten(fault.GetField(), 128)), Reason: clean(fault.GetReason()), TooLarge: fault.GetTooLarge()}
}
