package plugin

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// outcomeOf says in the protocol's words what a sink has returned for a message.
func outcomeOf(id string, err error) *sinkv1.Result {
	if err == nil {
		return &sinkv1.Result{Id: id, Outcome: sinkv1.Outcome_OUTCOME_CONFIRMED}
	}
	r := &sinkv1.Result{Id: id, Outcome: sinkv1.Outcome_OUTCOME_RETRY, Error: err.Error()}
	classified, ok := errors.AsType[*core.SinkError](err)
	if !ok {
		return r
	}
	r.AfterMs = classified.After.Milliseconds()
	r.Error = classified.Err.Error()
	switch classified.Class {
	case core.Unknown:
		r.Outcome = sinkv1.Outcome_OUTCOME_UNKNOWN
	case core.Permanent:
		r.Outcome = sinkv1.Outcome_OUTCOME_PERMANENT
	case core.Blocked:
		r.Outcome = sinkv1.Outcome_OUTCOME_BLOCKED
	case core.TopicBlocked:
		r.Outcome = sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED
	}
	return r
}

// errNoOutcome is for a result that says nothing, or something that this
// version does not know.
var errNoOutcome = errors.New("plugin returned an unknown outcome")

// errorOf is the error that a sink would have returned.
func errorOf(r *sinkv1.Result) error {
	class, err := core.Unknown, error(nil)
	switch r.GetOutcome() {
	case sinkv1.Outcome_OUTCOME_CONFIRMED:
		return nil
	case sinkv1.Outcome_OUTCOME_RETRY:
		class = core.Retry
	case sinkv1.Outcome_OUTCOME_UNKNOWN:
	case sinkv1.Outcome_OUTCOME_PERMANENT:
		class = core.Permanent
	case sinkv1.Outcome_OUTCOME_BLOCKED:
		class = core.Blocked
	case sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED:
		class = core.TopicBlocked
	default:
		err = fmt.Errorf("%w: %d", errNoOutcome, r.GetOutcome())
	}
	if err == nil {
		err = errors.New(r.GetError())
	}
	return &core.SinkError{Class: class, After: afterOf(r), Err: err}
}

// afterOf is the wait that a plugin asks for: none if it is negative, and the
// longest that there is if it is more than that.
func afterOf(r *sinkv1.Result) time.Duration {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(r.GetAfterMs(), 0), longest)) * time.Millisecond
}
