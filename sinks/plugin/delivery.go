package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// errTooLarge: the plugin's server did not take the request, for its size.
var errTooLarge = errors.New("larger than the plugin accepts")

// delivery is one Deliver on its way: its batch goes out in parts, one after
// the other, so that messages with equal keys keep their order.
type delivery struct {
	in      *instance
	batch   []*core.Message
	results core.BatchError
	failed  bool  // a result is not nil
	trouble error // with the sink as a whole, before anything was sent
}

func (d *delivery) run(ctx context.Context) error {
	for from := 0; from < len(d.batch); {
		to := from + d.in.bounds.fit(d.batch[from:])
		if !d.send(ctx, from, to) {
			break
		}
		from = to
	}
	switch {
	case d.trouble != nil:
		return d.trouble
	case d.failed:
		return d.results
	}
	return nil
}

// send hands over one part; false if there is no use in handing over the next.
func (d *delivery) send(ctx context.Context, from, to int) bool {
	part := d.batch[from:to]
	err := d.in.deliver(ctx, part)
	switch results, each := errors.AsType[core.BatchError](err); {
	case err == nil:
		return true
	case errors.Is(err, errTooLarge) && len(part) > 1:
		middle := from + len(part)/2
		return d.send(ctx, from, middle) && d.send(ctx, middle, to)
	case errors.Is(err, errTooLarge):
		d.classify(from, to, core.Classify(core.Permanent, fmt.Errorf("the message is %w in one call", err)))
		return true
	case each:
		d.failed = true
		copy(d.results[from:], results)
		return true
	case to-from == len(d.batch), from == 0 && !isOfMessages(err) && core.ClassOf(err) != core.Unknown: // nothing else has been sent
		d.trouble = err
		return false
	case isOfMessages(err):
		d.classify(from, to, err)
		return true
	}
	d.classify(from, to, err)
	d.classify(to, len(d.batch), unsent(err))
	return false
}

func (d *delivery) classify(from, to int, err error) {
	d.failed = d.failed || from < to
	for n := from; n < to; n++ {
		d.results[n] = err
	}
}

// isOfMessages reports whether an error is said of messages even if it is said of all.
func isOfMessages(err error) bool {
	class := core.ClassOf(err)
	return class == core.Permanent || class == core.TopicBlocked
}

// unsent is the error for what stood behind a part that failed.
func unsent(err error) error {
	return fmt.Errorf("%w, because an earlier message failed: %w", core.ErrNotTried, errors.Unwrap(err))
}

// deliver is one call. It returns what a sink would, or errTooLarge.
func (in *instance) deliver(ctx context.Context, part []*core.Message) error {
	if err := in.fits(part); err != nil {
		return err
	}
	if in.gone() || in.cut.Load() > 0 { // its end may not be noticed yet
		return core.Classify(core.Retry, errDown)
	}
	if err := ctx.Err(); err != nil {
		return core.Classify(core.Retry, fmt.Errorf("not sent: %w", err))
	}
	in.under.Add(int64(len(part)))
	defer in.under.Add(-int64(len(part)))
	limit := replyLimit(len(part))
	response, err := in.sink.Deliver(ctx, &sinkv1.DeliverRequest{Messages: toProto(part)}, grpc.MaxCallRecvMsgSize(limit))
	if err != nil {
		return in.failedCall(ctx, err, limit)
	}
	in.delivers.beat()
	return in.read(part, response)
}

// replyLimit bounds the reply for n messages.
func replyLimit(n int) int { return maxReply + n*replySize }

// replySize is what the result of one message may need.
const replySize = 1 << 10

// errDown: the process has ended, or is about to be ended.
var errDown = errors.New("the plugin is down and will be restarted")

// fits tells a single message that the plugin has said not to take.
func (in *instance) fits(part []*core.Message) error {
	if len(part) == 1 && int64(len(part[0].Body)) > in.bounds.body {
		return errTooLarge
	}
	return nil
}

// failedCall gives a call without a response its class.
func (in *instance) failedCall(ctx context.Context, err error, limit int) error {
	code, text := status.Code(err), status.Convert(err).Message()
	said := fmt.Errorf("the plugin's Deliver failed: %s: %s", code, clean(text))
	switch code {
	case codes.ResourceExhausted:
		switch {
		case strings.HasSuffix(text, fmt.Sprintf("vs. %d)", limit)), strings.HasSuffix(text, fmt.Sprintf("than max %d", limit)):
			// Another process would say the same: the messages are tried one at a time.
			if in.verbose.CompareAndSwap(false, true) {
				in.log.Error("plugin's reply is too large to be read: the plugin must shorten the texts of its errors", "limit", limit)
			}
			return core.Classify(core.Unknown, fmt.Errorf("the plugin's reply is larger than %d bytes and can't be read", limit))
		case strings.Contains(text, "larger than max"):
			return errTooLarge
		}
	case codes.Unimplemented, codes.FailedPrecondition:
		return core.Classify(core.Blocked, said)
	case codes.DeadlineExceeded:
		in.unanswered(ctx, "Deliver", &in.delivers)
	case codes.Unavailable, codes.Canceled:
		// Where the process's end was noticed first, its connection was closed under the call.
		byUs := code == codes.Canceled && ctx.Err() != nil
		if !byUs && !in.stopping.Load() && (in.gone() || in.hasEnded()) {
			in.cut.CompareAndSwap(0, in.under.Load())
			return core.Classify(core.Unknown, fmt.Errorf("%w: %w", core.ErrCrashed, said))
		}
	}
	return core.Classify(core.Unknown, said)
}

// pulse is how a plugin answers one kind of call.
type pulse struct {
	answered atomic.Int64 // when it did last, in ns since 1970
	missed   atomic.Int32 // calls without an answer since
}

func (p *pulse) beat() {
	p.answered.Store(time.Now().UnixNano())
	p.missed.Store(0)
}

// unanswered notes a call that ran into its deadline: the plugin may hang. If it
// says that it lives, and yet answers none for long, it is no use either.
func (in *instance) unanswered(ctx context.Context, call string, p *pulse) {
	// The plugin's server may have seen the deadline a little before us. What
	// comes long before it is about something else.
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > deadlineSlack {
		return
	}
	last := time.Unix(0, max(p.answered.Load(), in.since.UnixNano()))
	if p.missed.Add(1) >= hopeless && time.Since(last) > in.pace.silence {
		in.condemn(fmt.Errorf("it did not answer a %s for %s", call, time.Since(last).Round(time.Second)))
		return
	}
	select {
	case in.suspect <- struct{}{}:
	default:
	}
}

const deadlineSlack = 100 * time.Millisecond

// hopeless is how many calls in a row must have had no answer.
const hopeless = 3

// read turns a response into what a sink would have returned.
func (in *instance) read(part []*core.Message, response *sinkv1.DeliverResponse) error {
	if response.Trouble != nil {
		return in.readTrouble(response.Trouble)
	}
	if len(response.Results) != len(part) {
		return in.nonsense("it returned %d results for %d messages", len(response.Results), len(part))
	}
	var results core.BatchError
	for n, result := range response.Results {
		if result.GetId() != part[n].ID {
			return in.nonsense("its result %d is for message %q, not for %q", n, core.Shorten(result.GetId(), 64), part[n].ID)
		}
		err := in.outcome(result)
		if err == nil {
			continue
		}
		if results == nil {
			results = make(core.BatchError, len(part))
		}
		results[n] = err
	}
	if results == nil {
		return nil
	}
	return results
}

func (in *instance) readTrouble(trouble *sinkv1.Result) error {
	err := in.outcome(trouble)
	if err == nil {
		return in.nonsense("it reported trouble with the outcome %s", trouble.GetOutcome())
	}
	return err
}

// outcome is errorOf with a text that is fit to be logged and stored.
func (in *instance) outcome(result *sinkv1.Result) error {
	if result.GetError() != "" {
		result.Error = clean(result.Error)
	}
	err := errorOf(result)
	if errors.Is(err, errNoOutcome) && in.odd.CompareAndSwap(false, true) {
		in.log.Warn("plugin returned an undefined outcome, which counts as unknown", "outcome", int(result.GetOutcome()))
	}
	return err
}

// nonsense is a reply that can't be believed: all may have been sent, or nothing.
func (in *instance) nonsense(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	in.condemn(err)
	return core.Classify(core.Unknown, fmt.Errorf("the plugin's reply is invalid: %w", err))
}
