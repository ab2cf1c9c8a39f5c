package main

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) cancelCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:   "cancel ID...",
		Short: "Cancel parked messages",
		Long: `Cancel parked messages. A message that is being delivered, or has been delivered,
stays as it is: exit code 6.`,
		Example: "  delaybridge cancel order-42\n  delaybridge cancel --sink orders --key 42 order-42",
	}, (*client.Client).Cancel)
}
