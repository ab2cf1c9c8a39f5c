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
	if err := s.checkSinkNames(query.Sinks); err != nil {
		return err
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

// Stats are the counts of all live instances, or of one.
type Stats struct {
	Instances  int // whose work is in Sinks and Sources
	Unreported int // live instances of which nothing is known, such as those of another version
	Sinks      []SinkReport
	Sources    []SourceReport
}

// SinkReport has the messages that are stored for one sink, and the work of the
// instances that Stats was asked for. Owned counts the buckets of these, too.
type SinkReport struct {
	SinkStats
	// Work is that of the instances together: the sums of their counts; of lateness, the
	// largest of each figure, so that those of all messages are not larger; the pause that
	// has lasted longest.
	Work Work
}

// SourceReport is what one source of one instance has done since that started.
type SourceReport struct {
	Instance   string `json:"-"`              // set by Stats
	Source     string `json:"name"`           // its name
	Parked     uint64 `json:"new,omitempty"`  // messages that are new in the store
	Duplicates uint64 `json:"dup,omitempty"`  // records skipped because their ID was accepted before: read again, or sent again with an ID of their own
	Rejected   uint64 `json:"rej,omitempty"`  // records that were written to the reject target
	Skipped    uint64 `json:"skip,omitempty"` // records that were left out because they can't be parked
	Retried    uint64 `json:"ret,omitempty"`  // tries that failed because the store or the reject target was not available
	Lag        int64  `json:"lag"`            // records not yet read; negative if unknown
	// LagTime is the age of the record that was parked last in the partition or queue that
	// is furthest behind, zero if Lag is zero; negative if unknown.
	LagTime time.Duration `json:"behind,omitempty"`
	// Trouble is why the source is not running, and Since when that was first seen; empty
	// if it is. Stopped means that it does not retry.
	Trouble string    `json:"trouble,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Stopped bool      `json:"stopped,omitempty"`
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

// Stored counts what is stored for every sink, in the order configured.
func (i *Interceptor) Stored(ctx context.Context) ([]SinkStats, error) {
	inspector, ok := Ability[Inspector](i.store)
	if !ok {
		return nil, ErrNoInspector
	}
	return inspector.Stats(ctx, i.Sinks()...)
}

// Stats reports on every sink, in the order configured, with the work of all live
// instances, or of the one named. It returns an *InvalidError if that is not live or has
// told nothing.
func (i *Interceptor) Stats(ctx context.Context, instance string) (Stats, error) {
	stored, err := i.Stored(ctx)
	if err != nil {
		return Stats{}, err
	}
	instances, err := i.Instances(ctx)
	if err != nil {
		return Stats{}, err
	}
	if instance != "" {
		instances = slices.DeleteFunc(instances, func(one Instance) bool { return one.Name != instance })
		if len(instances) == 0 || instances[0].Age < 0 {
			return Stats{}, Invalidf("instance", "no live instance of the name %q has described itself", Shorten(instance, 64))
		}
	}
	var stats Stats
	for _, s := range stored {
		stats.Sinks = append(stats.Sinks, SinkReport{SinkStats: s, Work: Work{Sink: s.Sink}})
	}
	for _, one := range instances {
		stats.add(one)
	}
	if instance != "" {
		for n := range stats.Sinks {
			stats.Sinks[n].Owned = stats.Sinks[n].Work.Buckets
		}
	}
	return stats, nil
}

// add adds the work of one instance. Sinks that are not configured here are left out.
func (s *Stats) add(one Instance) {
	if one.Age < 0 {
		s.Unreported++
		return
	}
	s.Instances++
	for n := range s.Sinks {
		into := &s.Sinks[n].Work
		if at := slices.IndexFunc(one.Sinks, func(w Work) bool { return w.Sink == into.Sink }); at >= 0 {
			into.add(one.Sinks[at])
		}
	}
	for _, source := range one.Sources {
		source.Instance = one.Name
		s.Sources = append(s.Sources, source)
	}
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
