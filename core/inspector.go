package core

import (
	"context"
	"time"
)

// Inspector is the ability of a Store to list and count its messages. Both built-in
// stores have it.
type Inspector interface {
	// List returns one page of entries in order of due time. The pages are not a
	// snapshot: a message whose due time or state changes between two calls may be
	// listed twice or not at all. ErrBadCursor: the cursor was not returned for this
	// query.
	List(ctx context.Context, query Query) (Page, error)
	// Stats counts what is stored for each sink, in the order given.
	Stats(ctx context.Context, sinks ...string) ([]SinkStats, error)
	// Timeline counts what waits by when it is due, including what is being delivered. The
	// query has whole steps of whole milliseconds, and MaxSteps at most. An *InvalidError,
	// for the field step, means that so many steps of so many buckets are too much work.
	Timeline(ctx context.Context, query TimelineQuery) (Timeline, error)
}

// Query selects what List returns.
type Query struct {
	// Sinks must name at least one sink.
	Sinks []string
	// States selects by state; none means Scheduled, Retrying and Delivering. Dead and
	// Expired can't be combined with the others, because they are stored separately.
	States []State
	Topic  string // exact match; empty is any
	// DueAfter (inclusive) and DueBefore (exclusive) bound Entry.Due; zero is open.
	DueAfter, DueBefore time.Time
	Limit               int    // 1 to MaxPage
	Cursor              string // Page.Next of the previous page
}

// MaxPage bounds Query.Limit.
const MaxPage = 500

// Page is one answer of List. It may have fewer entries than Limit, even none, and
// still have a Next, because one call does bounded work.
type Page struct {
	Entries []Entry
	Next    string // empty on the last page
}

// SinkStats counts the messages stored for one sink.
type SinkStats struct {
	Sink      string
	Scheduled int // waiting, also between two attempts
	Due       int // of these, due by now; includes what is being delivered
	Retrying  int // of Scheduled, those that have failed before; includes what is being delivered
	Dead      int
	Buckets   int
	Owned     int           // buckets that some instance owns
	NextDue   time.Time     // zero: nothing waits
	Overdue   time.Duration // for how long the oldest of Due is due, on the store's clock
}
