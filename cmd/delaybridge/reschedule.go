package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
)

func (a *app) rescheduleCommand() *cobra.Command {
	var ref refFlags
	var due dueFlags
	cmd := &cobra.Command{
		Use:               "reschedule ID (--delay DURATION | --deliver-at TIME)",
		Short:             "Change when a message is due",
		Example:           "  delaybridge reschedule order-42 --delay 2h\n  delaybridge reschedule order-42 --deliver-at 2030-01-31T09:00:00Z",
		Args:              oneArgument("the ID of the message"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	ref.add(cmd)
	due.add(cmd, "delay from now")
	cmd.MarkFlagsOneRequired("delay", "deliver-at")
	return a.clientCommand(cmd, func(ctx context.Context, s *session, ids []string) error {
		when, err := due.when()
		if err != nil {
			return err
		}
		receipt, err := s.Reschedule(ctx, ref.ref(cmd, ids[0]), when)
		if err != nil {
			return err
		}
		return s.receipt(receipt)
	})
}

// dueFlags say when a message is due; at most one of them can be given.
type dueFlags struct{ delay, deliverAt string }

func (f *dueFlags) add(cmd *cobra.Command, delay string) {
	cmd.Flags().StringVar(&f.delay, "delay", "", delay+", such as 500ms, 10s, 1h30m, 7d")
	cmd.Flags().StringVar(&f.deliverAt, "deliver-at", "", "delivery time as RFC 3339 with offset, such as 2030-01-31T09:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("delay", "deliver-at")
}

func (f *dueFlags) when() (client.When, error) {
	if f.deliverAt != "" {
		at, err := parsed("deliver_at", f.deliverAt, core.ParseTime)
		return client.When{At: at}, err
	}
	after, err := core.ParseDuration(f.delay)
	if err != nil {
		return client.When{}, client.Invalid("delay", "%v", err)
	}
	if after == 0 {
		after = client.Now
	}
	return client.When{After: after}, nil
}
