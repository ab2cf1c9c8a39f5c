package main

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
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
		entry, err := s.Get(ctx, ref.ref(cmd, ids[0]))
		if err != nil {
			return err
		}
		if !s.forPeople() {
			return s.object(s.answer)
		}
		return s.pairs(entryRows(entry))
	})
}

// entryRows is the message as names and values, without what it does not have.
func entryRows(e client.Entry) [][2]string {
	rows := [][2]string{
		{"id", e.ID}, {"sink", e.Sink}, {"topic", e.Topic}, {"state", string(e.State)}, {"due", timeText(e.Due)},
		{"deliver_at", timeText(e.DeliverAt)}, {"expires_at", timeText(e.ExpiresAt)},
		{"priority", unlessZero(e.Priority)}, {"attempts", unlessZero(e.Attempt)},
		{"reason", e.Reason}, {"error", e.Error}, {"key", bytesText(e.Key)},
	}
	for _, h := range e.Headers {
		rows = append(rows, [2]string{"header " + h.Name, bytesText(h.Value)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		rows = append(rows, [2]string{"option " + name, e.Options[name]})
	}
	return withValues(append(rows, [2]string{"body", bytesText(e.Body)}))
}

func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
