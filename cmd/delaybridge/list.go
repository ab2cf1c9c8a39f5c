package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// listFlags select what is listed.
type listFlags struct {
	sinks, states       []string
	topic               string
	dueAfter, dueBefore string
	limit               int
	cursor              string
}

// maxPageSize is the most that the server gives in one answer.
const maxPageSize = 500

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List parked messages by due time",
		Example: `  delaybridge list --sink orders --due-before 2030-01-31T09:00:00Z
  delaybridge list --state retrying --limit 1000 -o json`,
	}
	return a.listing(cmd, "/v1/messages", "scheduled", "retrying", "delivering", "dead", "expired")
}

// listing makes cmd list what path has.
func (a *app) listing(cmd *cobra.Command, path string, states ...string) *cobra.Command {
	var f listFlags
	cmd.Args = cobra.NoArgs
	f.add(cmd, states)
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		if f.limit < 1 {
			return usageError("--limit must be at least 1")
		}
		page, err := f.walk(ctx, s, path)
		if err != nil {
			return err
		}
		if s.json {
			return s.value(page)
		}
		if err := s.entries(page.Messages); err != nil {
			return err
		}
		if page.Next != "" {
			fmt.Fprintf(a.stderr, "There is more: go on with --cursor %s\n", escape(page.Next))
		}
		return nil
	})
}

func (f *listFlags) add(cmd *cobra.Command, states []string) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.sinks, "sink", nil, "name of a sink to list; can be repeated (default: all)")
	flags.StringArrayVar(&f.states, "state", nil, "state to list: "+strings.Join(states, ", ")+"; can be repeated (default: all)")
	flags.StringVar(&f.topic, "topic", "", "topic to list (default: all)")
	flags.StringVar(&f.dueAfter, "due-after", "", "earliest due time (RFC 3339)")
	flags.StringVar(&f.dueBefore, "due-before", "", "due time before which messages are listed (RFC 3339)")
	flags.IntVar(&f.limit, "limit", 100, "maximum number of messages")
	flags.StringVar(&f.cursor, "cursor", "", "cursor that the previous page ended with")
	complete(cmd, "state", states...)
}

func (f *listFlags) query(limit int, cursor string) url.Values {
	query := url.Values{"sink": f.sinks, "state": f.states, "limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"topic": f.topic, "due_after": f.dueAfter, "due_before": f.dueBefore, "cursor": cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// listPage is one answer, or several put together.
type listPage struct {
	Messages []json.RawMessage `json:"messages"`
	Next     string            `json:"next_cursor,omitempty"`
}

// walk asks for page after page until there is enough. A page may be empty and
// not be the last.
func (f *listFlags) walk(ctx context.Context, s *session, path string) (listPage, error) {
	all := listPage{Messages: []json.RawMessage{}, Next: f.cursor}
	for {
		answer, err := s.call(ctx, http.MethodGet, path, f.query(min(maxPageSize, f.limit-len(all.Messages)), all.Next), nil)
		if err != nil {
			return all, err
		}
		var page listPage
		if err := json.Unmarshal(answer, &page); err != nil {
			return all, fmt.Errorf("read the answer: %w", err)
		}
		all.Messages, all.Next = append(all.Messages, page.Messages...), page.Next
		if all.Next == "" || len(all.Messages) >= f.limit {
			return all, nil
		}
	}
}

// entries prints messages, one a line.
func (s *session) entries(messages []json.RawMessage) error {
	rows := [][]string{{"DUE", "ID", "SINK", "TOPIC", "STATE", "ATTEMPTS", "SIZE", "ERROR"}}
	for _, text := range messages {
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		rows = append(rows, []string{e.Due, e.ID, e.Sink, e.Topic, e.State, strconv.Itoa(e.Attempt), strconv.Itoa(e.BodySize), shorten(e.failure(), 60)})
	}
	return s.table(rows)
}

func (e *entry) failure() string {
	if e.Reason != "" && e.Error != "" {
		return e.Reason + ": " + e.Error
	}
	return e.Reason + e.Error
}
