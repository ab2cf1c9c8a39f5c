package main

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dead",
		Short:   "List, redrive or discard dead letters",
		Long:    "List, redrive or discard dead letters: messages that can't be delivered, each with the reason.",
		Example: "  delaybridge dead list\n  delaybridge dead redrive order-42\n  delaybridge dead discard order-42",
	}
	list := a.listing(&cobra.Command{
		Use:     "list",
		Short:   "List dead letters, oldest first",
		Example: "  delaybridge dead list --sink orders --state expired",
	}, client.Query{Dead: true}, client.Dead, client.Expired)
	redrive := a.actCommand(&cobra.Command{
		Use:     "redrive ID...",
		Short:   "Send dead letters again, with all attempts available",
		Example: "  delaybridge dead redrive order-42",
	}, (*client.Client).Redrive)
	discard := a.actCommand(&cobra.Command{
		Use:     "discard ID...",
		Short:   "Remove dead letters permanently",
		Example: "  delaybridge dead discard order-42",
	}, (*client.Client).Discard)
	return group(cmd, list, redrive, discard)
}
