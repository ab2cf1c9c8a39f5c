package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dead",
		Short:   "Look after dead letters",
		Long:    "Look after dead letters: messages that were given up, with the reason.",
		Example: "  delaybridge dead list\n  delaybridge dead redrive order-42\n  delaybridge dead discard order-42",
	}
	list := a.listing(&cobra.Command{
		Use:     "list",
		Short:   "List dead letters, by the time they died",
		Example: "  delaybridge dead list --sink orders --state expired",
	}, "/v1/dead", "dead", "expired")
	redrive := a.actCommand(&cobra.Command{
		Use:     "redrive ID...",
		Short:   "Send dead letters again, with no attempts spent",
		Example: "  delaybridge dead redrive order-42",
	}, http.MethodPost, "/v1/dead/%s/redrive")
	discard := a.actCommand(&cobra.Command{
		Use:     "discard ID...",
		Short:   "Remove dead letters for good",
		Example: "  delaybridge dead discard order-42",
	}, http.MethodDelete, "/v1/dead/%s")
	return group(cmd, list, redrive, discard)
}
