package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) deliverNowCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:     "deliver-now ID...",
		Short:   "Make parked messages due now",
		Example: "  delaybridge deliver-now order-42",
	}, http.MethodPost, "/v1/messages/%s/deliver-now")
}
