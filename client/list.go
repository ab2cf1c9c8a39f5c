package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// Query selects messages. The zero value selects all that wait.
type Query struct {
	// Dead selects dead letters, in place of what waits.
	Dead  bool
	Sinks []string // all if empty
	// States are of Scheduled, Retrying, Delivering, or of Dead, Expired; if empty,
	// the first three, or the last two where Dead is set.
	States []State
	Topic  string
	// From DueAfter up to but not including DueBefore; of dead letters it is when
	// they died.
	DueAfter, DueBefore time.Time
	PageSize            int // 1 to 500 messages a request; 100
	// Cursor is Page.Next of the page before; empty is the first page.
	Cursor string
}

// Page is a part of what a Query selects.
type Page struct {
	Entries []Entry // without their bodies; there may be none although more follow
	Next    string  // Query.Cursor of the page that follows; empty if this is the last
}

// List walks over the messages that q selects, in order of Entry.Due, without
// their bodies. It asks for pages as they are needed; what moves meanwhile may
// be seen twice or not at all. An error ends the walk.
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

// ListPage returns one page of what List walks over, for a caller who continues later.
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
