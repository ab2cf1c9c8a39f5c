package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

func (a *app) getCommand() *cobra.Command {
	var ref refFlags
	cmd := &cobra.Command{
		Use:               "get ID",
		Short:             "Show one message",
		Example:           "  delaybridge get order-42\n  delaybridge get -o json -- -odd-id",
		Args:              oneArgument("the ID of the message"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	ref.add(cmd)
	return a.clientCommand(cmd, func(ctx context.Context, s *session, ids []string) error {
		answer, err := s.call(ctx, http.MethodGet, "/v1/messages/"+url.PathEscape(ids[0]), ref.query(cmd), nil)
		if err != nil {
			return err
		}
		if s.json {
			return s.raw(answer)
		}
		var e entry
		if err := json.Unmarshal(answer, &e); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		return s.pairs(e.rows())
	})
}

// rows is the message as names and values, without what it does not have.
func (e *entry) rows() [][2]string {
	rows := [][2]string{
		{"id", e.ID}, {"sink", e.Sink}, {"topic", e.Topic}, {"state", e.State}, {"due", e.Due},
		{"deliver_at", e.DeliverAt}, {"expires_at", e.ExpiresAt},
		{"priority", unlessZero(e.Priority)}, {"attempts", unlessZero(e.Attempt)},
		{"reason", e.Reason}, {"error", e.Error}, {"key", orBase64(e.Key, e.KeyBase64)},
	}
	for _, h := range e.Headers {
		rows = append(rows, [2]string{"header " + h.Name, orBase64(h.Value, h.ValueBase64)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		rows = append(rows, [2]string{"option " + name, e.Options[name]})
	}
	rows = append(rows, [2]string{"body", orBase64(e.Body, e.BodyBase64)})
	return slices.DeleteFunc(rows, func(row [2]string) bool { return row[1] == "" })
}

func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func orBase64(text, base64 *string) string {
	switch {
	case text != nil:
		return *text
	case base64 != nil:
		return "base64 " + *base64
	}
	return ""
}
