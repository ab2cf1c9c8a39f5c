package httplistener

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

const defaultLimit = 100

// pageJSON is one page of a list. Without next_cursor it is the last.
type pageJSON struct {
	Messages   []entryJSON `json:"messages"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

func (s *Server) listMessages(w http.ResponseWriter, r *http.Request) error {
	return s.list(w, r, nil)
}

func (s *Server) listDead(w http.ResponseWriter, r *http.Request) error {
	return s.list(w, r, []core.State{core.Dead, core.Expired})
}

// list answers with a page of messages in the states asked for, or in those
// given if none is.
func (s *Server) list(w http.ResponseWriter, r *http.Request, states []core.State) error {
	query, err := listQuery(r)
	if err != nil {
		return err
	}
	if len(query.States) == 0 {
		query.States = states
	} else if states != nil && query.States[0] != core.Dead && query.States[0] != core.Expired {
		return core.Invalidf("state", "must be dead or expired here")
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	page, err := s.in.List(ctx, query)
	if err != nil {
		return err
	}
	answer := pageJSON{Messages: make([]entryJSON, len(page.Entries)), NextCursor: page.Next}
	for n, entry := range page.Entries {
		answer.Messages[n] = newEntryJSON(entry, false)
	}
	return s.writeJSON(w, http.StatusOK, answer)
}

// listQuery reads the parameters of a list; core checks what they select.
func listQuery(r *http.Request) (core.Query, error) {
	query := core.Query{Limit: defaultLimit}
	given, err := queryOf(r, []string{"sink", "state"}, "topic", "due_after", "due_before", "limit", "cursor")
	if err != nil {
		return query, err
	}
	query.Sinks, query.Topic, query.Cursor = given["sink"], given.Get("topic"), given.Get("cursor")
	for _, state := range given["state"] {
		query.States = append(query.States, core.State(state))
	}
	if query.DueAfter, err = timeParam(given, "due_after"); err != nil {
		return query, err
	}
	if query.DueBefore, err = timeParam(given, "due_before"); err != nil {
		return query, err
	}
	if given.Has("limit") {
		if query.Limit, err = strconv.Atoi(given.Get("limit")); err != nil {
			return query, core.Invalidf("limit", "must be 1 to %d", core.MaxPage)
		}
	}
	return query, nil
}

// timeParam reads a time; absent is zero.
func timeParam(given url.Values, name string) (time.Time, error) {
	if !given.Has(name) {
		return time.Time{}, nil
	}
	return timeField(name, given.Get(name))
}
