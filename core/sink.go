package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Sink is a way out: it puts messages into a broker and says, for each, whether
// the broker has confirmed it. A sink knows no retry policy and no delay: it
// tries once and classifies; the engine decides. sinks/sinktest holds the suite
// that every Sink passes. What a Sink may be able to do besides is Checker,
// HealthChecker and Describer; Ability finds it, also behind a wrapper.
type Sink interface {
	// Deliver sends the batch (1 to MaxTake messages) and returns when the outcome
	// of each is known or ctx has ended, and then soon. It is called from many
	// goroutines at once, each with messages of its own. Messages with equal
	// keys must reach the broker in the order of the batch. The messages belong
	// to the engine: do not change or keep them.
	//
	//	nil              the broker has confirmed all
	//	BatchError       a result for each message: nil is confirmed
	//	any other error  the trouble is with the sink as a whole. With class
	//	                 Retry or Blocked nothing of the batch was sent; with
	//	                 Unknown all of it may have been, and if it also is
	//	                 ErrCrashed, one of the messages may be the cause.
	//
	// An error without a class counts as Retry. A message that makes a whole batch fail
	// is found: it spends attempts if it fails alone while others pass.
	Deliver(ctx context.Context, batch []*Message) error
	// Close lets go of the broker, also while Deliver calls are under way, and
	// returns in bounded time. Deliver then fails. Closing twice does no harm.
	Close() error
}

// Errors that a Sink returns besides classes, to be tested with errors.Is.
var (
	// ErrCrashed, with class Unknown: what delivers has ended in the midst of the call, as
	// a process that a message has killed. The messages are tried again one at a time, and
	// spend the attempt that was made, but not their last.
	ErrCrashed = errors.New("crashed during the delivery")
	// ErrNotTried, in a BatchError: the message was not sent, for a reason that is not
	// its own. It stays as it is and spends nothing.
	ErrNotTried = errors.New("not tried")
)

// OpenFunc makes a Sink from its configuration, a JSON object that it decodes
// strictly. It checks everything that can be checked before it opens anything,
// starts nothing that Close does not end, and does not fail because a broker is
// down: that is for Deliver to report.
type OpenFunc func(ctx context.Context, config json.RawMessage) (Sink, error)

// Class says what the engine is to do about a failed delivery.
type Class int

// The classes, from the most harmless.
const (
	// Retry: not sent, but it may work later. The default.
	Retry Class = iota
	// Unknown: it may have been sent. Retried, counted as a possible duplicate.
	Unknown
	// Permanent: this message can never be sent. It becomes a dead letter.
	Permanent
	// Blocked: the broker refuses everything until an operator acts (login,
	// configuration). The sink pauses; nothing is spent.
	Blocked
	// TopicBlocked: as Blocked, but for this message's topic only (missing, no
	// permission). The message goes back and spends no attempt.
	TopicBlocked
)

var classNames = [...]string{"retry", "unknown", "permanent", "blocked", "topic_blocked"}

// String is the class in one word, as it stands in dead letters and stats.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return classNames[c]
}

// SinkError is an error with a class.
type SinkError struct {
	Class Class
	// After, if positive, is how long the broker asked us to wait. It is used with Retry
	// and Blocked, when it is longer than the engine's own back-off, and up to seven days.
	After time.Duration
	Err   error
}

// Classify gives err a class. A nil err stays nil.
func Classify(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &SinkError{Class: class, Err: err}
}

func (e *SinkError) Error() string { return e.Class.String() + ": " + e.Err.Error() }

// Unwrap returns the error that was classified.
func (e *SinkError) Unwrap() error { return e.Err }

// ClassOf tells the class of an error that a Sink returned: that of the
// outermost SinkError in it, else Retry.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*SinkError](err); ok {
		return e.Class
	}
	return Retry
}

// BatchError has a result for each message of a batch, in order; nil is
// confirmed by the broker.
type BatchError []error

func (e BatchError) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e {
		if err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return "no message failed"
	}
	return fmt.Sprintf("%d of %d messages failed, the first with: %v", failed, len(e), first)
}

// Unwrap returns the errors of the failed messages.
func (e BatchError) Unwrap() []error {
	failed := make([]error, 0, len(e))
	for _, err := range e {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
