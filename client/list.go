package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// Query selects messages. The zero value selects all that are not yet settled, without
// dead letters.
type Query struct {
	// Dead selects dead letters instead.
	Dead  bool
	Sinks []string // all if empty
	// States are of Scheduled, Retrying, Delivering, or of Dead, Expired; if empty,
	// the first three, or the last two where Dead is set.
	States []State
	Topic  string
	// DueAfter (inclusive) and DueBefore (exclusive) bound Entry.Due; zero is open.
	DueAfter, DueBefore time.Time
	PageSize            int // messages per request, 1 to 500; default 100
	// Cursor is Page.Next of the previous page; empty is the first page.
	Cursor string
}

// Page is one page of the messages that a Query selects.
type Page struct {
	Entries []Entry // without bodies; may be empty although more follow
	Next    string  // Query.Cursor of the next page; empty on the last page
}

// List iterates over the messages that q selects, in order of Entry.Due, without
// bodies. It requests pages as they are needed; a message whose due time or state
// changes meanwhile may be listed twice or not at all. An error ends the iteration.
func (c *Client) List(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, err := c.ListPage(ctx, q)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, entry := range page.Entries {
				if !yield(entry, nil) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// ListPage returns one page of the messages of List, for callers that continue later.
func (c *Client) ListPage(ctx context.Context, q Query) (Page, error) {
	path := "/v1/messages"
	if q.Dead {
		path = "/v1/dead"
	}
	var answer struct {
		Messages   []entryJSON `json:"messages"`
		NextCursor string      `json:"next_cursor"`
	}
	if err := c.read(ctx, withQuery(path, q.values()), &answer); err != nil {
		return Page{}, err
	}
	page := Page{Entries: make([]Entry, len(answer.Messages)), Next: answer.NextCursor}
	for n := range answer.Messages {
		page.Entries[n] = answer.Messages[n].entry()
	}
	return page, nil
}

func (q *Query) values() url.Values {
	query := make(url.Values)
	for _, sink := range q.Sinks {
		query.Add("sink", sink)
	}
	for _, state := range q.States {
		query.Add("state", string(state))
	}
	if q.Topic != "" {
		query.Set("topic", q.Topic)
	}
	setTime(query, "due_after", q.DueAfter)
	setTime(query, "due_before", q.DueBefore)
	if q.PageSize != 0 {
		query.Set("limit", strconv.Itoa(q.PageSize))
	}
	if q.Cursor != "" {
		query.Set("cursor", q.Cursor)
	}
	return query
}
