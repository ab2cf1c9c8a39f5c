package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Sink sends messages to a broker and reports, for each, whether the broker has
// confirmed it. A sink makes one attempt and classifies failures; retries and delays
// are the engine's. sinks/sinktest has the test suite that every Sink passes. A Sink
// may also implement Checker, HealthChecker and Describer; see Ability.
type Sink interface {
	// Deliver sends the batch (1 to MaxTake messages) and returns when the outcome of
	// each is known, or soon after ctx has ended. It is called concurrently, with
	// different messages. Messages with equal keys must reach the broker in the order
	// of the batch. Deliver must not change the messages or keep them.
	//
	//	nil              the broker has confirmed all
	//	BatchError       a result for each message: nil is confirmed
	//	any other error  the sink failed as a whole. With class
	//	                 Retry or Blocked nothing of the batch was sent; with
	//	                 Unknown all of it may have been, and if it also is
	//	                 ErrCrashed, one of the messages may be the cause.
	//
	// An error without a class counts as Retry. The engine isolates a message that
	// makes a whole batch fail: it spends attempts if it fails alone while others pass.
	Deliver(ctx context.Context, batch []*Message) error
	// Close releases the broker's connections, also during calls of Deliver, and
	// returns in bounded time. After Close, Deliver fails. Close may be called twice.
	Close() error
}

// Errors of a Sink, for errors.Is.
var (
	// ErrCrashed, with class Unknown, reports that the process that delivers ended during
	// the call, which a message may have caused. The messages are tried again one at a
	// time, and spend the attempt that was made, but not their last.
	ErrCrashed = errors.New("crashed during the delivery")
	// ErrNotTried, in a BatchError, reports that the message was not sent for a reason
	// unrelated to it. It stays as it is and spends no attempt.
	ErrNotTried = errors.New("not tried")
)

// OpenFunc opens a Sink with its configuration, a JSON object that it decodes strictly.
// It checks the configuration before it opens anything, and starts nothing that Close
// does not end. It does not fail because a broker is down: Deliver reports that.
type OpenFunc func(ctx context.Context, config json.RawMessage) (Sink, error)

// Class determines how the engine handles a failed delivery.
type Class int

// The classes of failures.
const (
	// Retry: not sent, but it may work later. The default.
	Retry Class = iota
	// Unknown: it may have been sent. Retried, counted as a possible duplicate.
	Unknown
	// Permanent: this message can never be sent. It becomes a dead letter.
	Permanent
	// Blocked: the broker refuses all messages until an operator acts (login,
	// configuration). The sink is paused; no attempt is spent.
	Blocked
	// TopicBlocked: the broker refuses this message's topic (missing, no permission).
	// The message is tried again later and spends no attempt.
	TopicBlocked
)

var classNames = [...]string{"retry", "unknown", "permanent", "blocked", "topic_blocked"}

// String returns the class in one word, as in dead letters and stats.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return classNames[c]
}

// SinkError is an error with a class.
type SinkError struct {
	Class Class
	// After, if positive, is how long the broker asked to wait. It is used with Retry and
	// Blocked if it is longer than the engine's own back-off, up to seven days.
	After time.Duration
	Err   error
}

// Classify returns err with a class, or nil if err is nil.
func Classify(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &SinkError{Class: class, Err: err}
}

func (e *SinkError) Error() string { return e.Class.String() + ": " + e.Err.Error() }

// Unwrap returns the error that was classified.
func (e *SinkError) Unwrap() error { return e.Err }

// ClassOf returns the class of an error that a Sink returned: that of the outermost
// SinkError in it, else Retry.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*SinkError](err); ok {
		return e.Class
	}
	return Retry
}

// BatchError has a result for each message of a batch, in order; nil means that the
// broker has confirmed the message.
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
