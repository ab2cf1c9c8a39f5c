package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) cancelCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:   "cancel ID...",
		Short: "Withdraw messages that wait",
		Long: `Withdraw messages that wait. A message that is being delivered or was delivered
already stays as it is: exit code 6.`,
		Example: "  delaybridge cancel order-42\n  delaybridge cancel --sink orders --key 42 order-42",
	}, http.MethodDelete, "/v1/messages/%s")
}
