package main

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) deliverNowCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:     "deliver-now ID...",
		Short:   "Make parked messages due now",
		Example: "  delaybridge deliver-now order-42",
	}, (*client.Client).DeliverNow)
}
