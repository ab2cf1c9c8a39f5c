package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
)

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List parked messages by due time",
		Example: `  delaybridge list --sink orders --due-before 2030-01-31T09:00:00Z
  delaybridge list --state retrying --limit 1000 -o json`,
	}
	return a.listing(cmd, client.Query{}, client.Scheduled, client.Retrying, client.Delivering, client.Dead, client.Expired)
}

// listFlags select what is listed.
type listFlags struct {
	query               client.Query
	states              []string
	dueAfter, dueBefore string
	limit               int
}

// listing makes cmd list what query selects, in the states that flags choose.
func (a *app) listing(cmd *cobra.Command, query client.Query, states ...client.State) *cobra.Command {
	f := listFlags{query: query}
	cmd.Args = cobra.NoArgs
	f.add(cmd, states)
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		if err := f.read(); err != nil {
			return err
		}
		found, err := f.walk(ctx, s)
		if err != nil {
			return err
		}
		if err := s.listed(found); err != nil {
			return err
		}
		if found.Next != "" && s.format != formatJSON {
			fmt.Fprintf(a.stderr, "There is more: continue with --cursor %s\n", escape(found.Next))
		}
		return nil
	})
}

func (f *listFlags) add(cmd *cobra.Command, states []client.State) {
	names := make([]string, len(states))
	for n, state := range states {
		names[n] = string(state)
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.query.Sinks, "sink", nil, "name of a sink to list; can be repeated (default: all)")
	flags.StringArrayVar(&f.states, "state", nil, "state to list: "+strings.Join(names, ", ")+"; can be repeated (default: all)")
	flags.StringVar(&f.query.Topic, "topic", "", "topic to list (default: all)")
	flags.StringVar(&f.dueAfter, "due-after", "", "earliest due time (RFC 3339)")
	flags.StringVar(&f.dueBefore, "due-before", "", "due time before which messages are listed (RFC 3339)")
	flags.IntVar(&f.limit, "limit", 100, "maximum number of messages")
	flags.StringVar(&f.query.Cursor, "cursor", "", "cursor that the previous page ended with")
	complete(cmd, "state", names...)
}

// read completes the query with the flags that are not yet in it.
func (f *listFlags) read() (err error) {
	if f.limit < 1 {
		return usageError("--limit must be at least 1")
	}
	for _, state := range f.states {
		f.query.States = append(f.query.States, client.State(state))
	}
	if f.query.DueAfter, err = parsed("due_after", f.dueAfter, core.ParseTime); err != nil {
		return err
	}
	f.query.DueBefore, err = parsed("due_before", f.dueBefore, core.ParseTime)
	return err
}

// listed is what the answers have, put together.
type listed struct {
	Messages []json.RawMessage `json:"messages"`
	Next     string            `json:"next_cursor,omitempty"`
	rows     [][]string        // the messages as a table
}

// walk asks for page after page until there is enough. A page may be empty and
// not be the last.
func (f *listFlags) walk(ctx context.Context, s *session) (listed, error) {
	all := listed{Messages: []json.RawMessage{}, rows: [][]string{{"DUE", "ID", "SINK", "TOPIC", "STATE", "ATTEMPTS", "SIZE", "ERROR"}}}
	for query := f.query; ; query.Cursor = all.Next {
		query.PageSize = min(core.MaxPage, f.limit-len(all.Messages))
		page, err := s.ListPage(ctx, query)
		if err != nil {
			return all, err
		}
		var answer listed
		if err := json.Unmarshal(s.answer, &answer); err != nil {
			return all, fmt.Errorf("read the answer: %w", err)
		}
		all.Messages, all.Next = append(all.Messages, answer.Messages...), page.Next
		for _, e := range page.Entries {
			all.rows = append(all.rows, []string{timeText(e.Due), e.ID, e.Sink, e.Topic, string(e.State), strconv.Itoa(e.Attempt), strconv.Itoa(e.BodySize), failure(e)})
		}
		if all.Next == "" || len(all.Messages) >= f.limit {
			return all, nil
		}
	}
}

func (s *session) listed(found listed) error {
	switch s.format {
	case formatTable:
		return s.table(found.rows)
	case formatJSON:
		return s.value(found)
	}
	for _, message := range found.Messages {
		if err := s.object(message); err != nil {
			return err
		}
	}
	return nil
}

func failure(e client.Entry) string {
	if e.Reason != "" && e.Error != "" {
		return e.Reason + ": " + e.Error
	}
	return e.Reason + e.Error
}
