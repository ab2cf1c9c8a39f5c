package core

import (
	"context"
	"time"
)

// Inspector is the ability of a Store to show what it holds. Both built-in
// stores have it.
type Inspector interface {
	// List returns one page of entries in order of due time. Pages are a walk,
	// not a snapshot: a message that moves while the walk continues may be seen
	// twice or not at all. ErrBadCursor: the cursor was not made for this query.
	List(ctx context.Context, query Query) (Page, error)
	// Stats counts what is stored for each sink, in the order given.
	Stats(ctx context.Context, sinks ...string) ([]SinkStats, error)
}

// Query selects what List returns.
type Query struct {
	// Sinks must name at least one sink.
	Sinks []string
	// States selects; none means all that wait or are being delivered. Dead and
	// Expired can't be mixed with the others, as they lie apart.
	States []State
	Topic  string // exact; empty is any
	// DueAfter (inclusive) and DueBefore (exclusive) bound Entry.Due; zero is open.
	DueAfter, DueBefore time.Time
	Limit               int    // 1 to MaxPage
	Cursor              string // Page.Next of the page before
}

// MaxPage bounds Query.Limit.
const MaxPage = 500

// Page is one answer of List. It may hold fewer entries than asked for, even
// none, and still have a Next: selecting is bounded work.
type Page struct {
	Entries []Entry
	Next    string // empty on the last page
}

// SinkStats counts what is stored for one sink.
type SinkStats struct {
	Sink      string
	Scheduled int // waiting, also between two attempts
	Due       int // of these, due by now; includes what is being delivered
	Dead      int
	Buckets   int
	Owned     int       // buckets that some instance owns
	NextDue   time.Time // zero: nothing waits
}
