package core

import (
	"context"
	"slices"
	"time"
)

// TimelineQuery selects what Timeline counts: the waiting messages of some sinks, in
// steps of equal length.
type TimelineQuery struct {
	Sinks []string // for Interceptor.Timeline, none means all
	// From is when the first step begins, and To when the last one ends, which it does not
	// include. For Interceptor.Timeline, a zero From is the beginning of the present step
	// on the clock of this process, and a zero To is defaultSteps after From; To is moved to
	// the end of a step.
	From, To time.Time
	Step     time.Duration
}

// Steps returns the number of steps.
func (q TimelineQuery) Steps() int {
	return int((q.To.Sub(q.From) + q.Step - 1) / q.Step)
}

// Timeline says how many of the waiting messages are due when.
type Timeline struct {
	TimelineQuery
	Due           []int // in each step
	Before, After int   // of the first step, and of the last
}

// At returns when a step begins.
func (t Timeline) At(step int) time.Time { return t.From.Add(time.Duration(step) * t.Step) }

const (
	// MaxSteps bounds the steps of a TimelineQuery.
	MaxSteps = 240
	// DefaultStep is for listeners that are given no Step.
	DefaultStep  = time.Minute
	defaultSteps = 60
	maxStep      = 366 * day
)

// Timeline counts what is due when; see Inspector.Timeline. It returns an *InvalidError
// for an invalid query, whose fields are named step, from, to and sink.
func (i *Interceptor) Timeline(ctx context.Context, query TimelineQuery) (Timeline, error) {
	inspector, ok := Ability[Inspector](i.store)
	if !ok {
		return Timeline{}, ErrNoInspector
	}
	s := i.setup.Load()
	if len(query.Sinks) == 0 {
		query.Sinks = s.ordered
	}
	if err := s.checkSinkNames(query.Sinks); err != nil {
		return Timeline{}, err
	}
	if err := query.complete(time.Now()); err != nil {
		return Timeline{}, err
	}
	found, err := inspector.Timeline(ctx, query)
	found.TimelineQuery = query
	return found, err
}

// complete checks the times of a query, and fills in those that are missing.
func (q *TimelineQuery) complete(now time.Time) error {
	q.Step, q.From, q.To = ceilDuration(q.Step), ceilMillisecond(q.From), ceilMillisecond(q.To)
	if q.Step <= 0 || q.Step > maxStep {
		return Invalidf("step", "must be more than 0s, and 366d at most")
	}
	if q.From.IsZero() {
		q.From = time.UnixMilli(now.UnixMilli() / q.Step.Milliseconds() * q.Step.Milliseconds())
	}
	if q.To.IsZero() {
		q.To = q.From.Add(defaultSteps * q.Step)
	}
	switch {
	case !q.To.After(q.From):
		return Invalidf("to", "must be after from")
	case q.To.Sub(q.From) > MaxSteps*q.Step:
		return Invalidf("step", "the time from %s to %s has more than %d steps of %s; use a longer step",
			q.From.UTC().Format(TimeFormat), q.To.UTC().Format(TimeFormat), MaxSteps, q.Step)
	}
	q.To = q.From.Add(time.Duration(q.Steps()) * q.Step)
	if q.To.UTC().Year() > 9999 {
		return Invalidf("to", "is after the year 9999")
	}
	return nil
}

// checkSinkNames refuses names of sinks that are unknown, or there twice: the store does work
// for each.
func (s *setup) checkSinkNames(names []string) error {
	for n, name := range names {
		if _, ok := s.sinks[name]; !ok {
			return unknownSink(name)
		}
		if slices.Contains(names[:n], name) {
			return Invalidf("sink", "is named twice: %q", name)
		}
	}
	return nil
}
