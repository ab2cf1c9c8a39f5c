package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Query selects messages. The zero value selects all that wait.
type Query struct {
	Sinks []string // all if empty
	// States are of Scheduled, Retrying, Delivering, or of Dead, Expired; the
	// first three if empty.
	States []State
	Topic  string
	// From DueAfter up to but not including DueBefore; of dead letters it is when
	// they died.
	DueAfter, DueBefore time.Time
	PageSize            int // 1 to 500 messages a request; 100
}

// List walks over the messages that q selects, in order of Entry.Due, without
// their bodies. It asks for pages as they are needed; what moves meanwhile may
// be seen twice or not at all. An error ends the walk.
func (c *Client) List(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for query := q.values(); ; {
			page, err := c.page(ctx, query)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for n := range page.Messages {
				if !yield(page.Messages[n].entry(), nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set("cursor", page.NextCursor)
		}
	}
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
	return query
}

type pageJSON struct {
	Messages   []entryJSON `json:"messages"`
	NextCursor string      `json:"next_cursor"`
}

func (c *Client) page(ctx context.Context, query url.Values) (*pageJSON, *Error) {
	page := new(pageJSON)
	err := c.ask(ctx, request{method: http.MethodGet, path: withQuery("/v1/messages", query)}, func(body []byte) error {
		return json.Unmarshal(body, page)
	})
	return page, err
}
