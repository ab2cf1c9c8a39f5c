package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func (a *app) rescheduleCommand() *cobra.Command {
	var ref refFlags
	var to when
	cmd := &cobra.Command{
		Use:               "reschedule ID (--delay DURATION | --deliver-at TIME)",
		Short:             "Change when a message is due",
		Example:           "  delaybridge reschedule order-42 --delay 2h\n  delaybridge reschedule order-42 --deliver-at 2030-01-31T09:00:00Z",
		Args:              oneArgument("the ID of the message"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	ref.add(cmd)
	cmd.Flags().StringVar(&to.Delay, "delay", "", "delay from now, such as 500ms, 10s, 1h30m, 7d")
	cmd.Flags().StringVar(&to.DeliverAt, "deliver-at", "", "delivery time as RFC 3339 with offset, such as 2030-01-31T09:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("delay", "deliver-at")
	cmd.MarkFlagsOneRequired("delay", "deliver-at")
	return a.clientCommand(cmd, func(ctx context.Context, s *session, ids []string) error {
		answer, err := s.call(ctx, http.MethodPatch, "/v1/messages/"+url.PathEscape(ids[0]), ref.query(cmd), to)
		if err != nil {
			return err
		}
		return s.receipt(answer)
	})
}
