package core

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrNoInspector is returned if the store can't list or count its messages.
var ErrNoInspector = errors.New("the store can't list its messages")

// List returns one page of entries; see Inspector.List. No Query.Sinks means all sinks.
// It returns an *InvalidError for an invalid query, such as one that names a sink or a
// state twice.
func (i *Interceptor) List(ctx context.Context, query Query) (Page, error) {
	inspector, ok := Ability[Inspector](i.store)
	if !ok {
		return Page{}, ErrNoInspector
	}
	s := i.setup.Load()
	if len(query.Sinks) == 0 {
		query.Sinks = s.ordered
	}
	if err := s.checkQuery(query); err != nil {
		return Page{}, err
	}
	return inspector.List(ctx, query)
}

// maxCursor is more than any store's cursor has.
const maxCursor = 512

// checkQuery holds a query to what the sinks and states can give: the store does
// work, and takes memory, for each that is named.
func (s *setup) checkQuery(query Query) error {
	for n, name := range query.Sinks {
		if _, ok := s.sinks[name]; !ok {
			return unknownSink(name)
		}
		if slices.Contains(query.Sinks[:n], name) {
			return Invalidf("sink", "is named twice: %q", name)
		}
	}
	switch {
	case query.Limit < 1 || query.Limit > MaxPage:
		return Invalidf("limit", "must be 1 to %d", MaxPage)
	case len(query.Topic) > MaxTopicLen:
		return Invalidf("topic", "is longer than %d bytes", MaxTopicLen)
	case len(query.Cursor) > maxCursor:
		return ErrBadCursor
	}
	return checkStates(query.States)
}

func checkStates(states []State) error {
	dead := 0
	for n, state := range states {
		switch state {
		case Scheduled, Retrying, Delivering:
		case Dead, Expired:
			dead++
		default:
			return Invalidf("state", "must be scheduled, retrying, delivering, dead or expired")
		}
		if slices.Contains(states[:n], state) {
			return Invalidf("state", "is named twice: %q", state)
		}
	}
	if dead > 0 && dead < len(states) {
		return Invalidf("state", "dead and expired can't be listed together with the others")
	}
	return nil
}

// SinkReport is the report of Stats about one sink: the messages that all instances
// have stored for it, and the counts of this instance since it started.
type SinkReport struct {
	SinkStats
	Totals
	// Paused is the reason why this instance has paused the sink; if it is empty, the
	// sink is not paused, and PausedSince is zero. PausedClass is the class of that error.
	Paused      string
	PausedClass Class
	PausedSince time.Time
	// details are the Describer's details of this instance's sink; nil if it has none.
	Details map[string]string
}

// SourceReport is what one source of this instance has done since it started.
type SourceReport struct {
	Source     string // its name
	Parked     uint64 // messages that are new in the store
	Duplicates uint64 // records skipped because their ID was accepted before: read again, or sent again with an ID of their own
	Rejected   uint64 // records that were written to the reject target
	Skipped    uint64 // records that were left out because they can't be parked
	Retried    uint64 // tries that failed because the store or the reject target was not available
	Lag        int64  // records not yet read; negative if unknown
	// LagTime is the age of the record that was parked last in the partition or queue that
	// is furthest behind, zero if Lag is zero; negative if unknown.
	LagTime time.Duration
	// Trouble is why the source is not running, and Since when that was first seen; empty
	// if it is. Stopped means that it does not retry.
	Trouble string
	Since   time.Time
	Stopped bool
}

// State returns "running", "retrying" or "stopped".
func (r SourceReport) State() string {
	switch {
	case r.Stopped:
		return "stopped"
	case r.Trouble != "":
		return "retrying"
	}
	return "running"
}

// Stats reports on every sink, in the order configured.
func (i *Interceptor) Stats(ctx context.Context) ([]SinkReport, error) {
	inspector, ok := Ability[Inspector](i.store)
	if !ok {
		return nil, ErrNoInspector
	}
	setup := i.setup.Load()
	stats, err := inspector.Stats(ctx, setup.ordered...)
	if err != nil {
		return nil, err
	}
	reports := setup.local()
	for n := range reports {
		reports[n].SinkStats = stats[n]
	}
	return reports, nil
}

// Local is Stats without the store: SinkStats has the name of the sink only.
func (i *Interceptor) Local() []SinkReport { return i.setup.Load().local() }

func (s *setup) local() []SinkReport {
	reports := make([]SinkReport, len(s.ordered))
	for n, name := range s.ordered {
		d, r := s.sinks[name], &reports[n]
		r.Sink, r.Totals = name, d.Totals()
		r.Paused, r.PausedClass, r.PausedSince = d.breaker.paused()
		if describer, ok := Ability[Describer](d.Sink); ok {
			r.Details = describer.Describe()
		}
	}
	return reports
}

// HeldBack returns the sinks that this instance can't deliver to at present, each with
// one word: "paused", or the "state" that the sink reports (see Describer) if that is
// not "running". Messages for them are still parked.
func (i *Interceptor) HeldBack() map[string]string {
	held := make(map[string]string)
	for name, d := range i.setup.Load().sinks {
		if reason, _ := d.Paused(); reason != "" {
			held[name] = "paused"
		}
		if describer, ok := Ability[Describer](d.Sink); ok {
			if state := describer.Describe()["state"]; state != "" && state != "running" {
				held[name] = state
			}
		}
	}
	return held
}
