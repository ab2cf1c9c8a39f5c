package main

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) healthCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:   "health",
		Short: "Report whether the bridge can accept messages",
		Long: `Report whether the instance that answers can accept messages: exit code 0 if it can,
4 if it can't or does not answer. Sinks and sources in trouble are listed; they do not
make the bridge unhealthy, because it still accepts messages.`,
		Example: "  delaybridge health\n  delaybridge health --timeout 2s -o json",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		health, err := s.Health(ctx)
		if err != nil {
			return err
		}
		if s.forPeople() {
			err = s.pairs(healthRows(health))
		} else {
			err = s.object(s.answer)
		}
		if err == nil && !health.Ready {
			return coded(exitUnreachable, errReported)
		}
		return err
	})
}

func healthRows(h client.Health) [][2]string {
	rows := [][2]string{{"ready", strconv.FormatBool(h.Ready)}, {"reason", h.Reason}, {"durability", h.Durability}}
	if h.Insecure {
		rows = append(rows, [2]string{"insecure", "true: other machines can call it without a token"})
	}
	rows = append(rows, [2]string{"configuration", h.Configuration})
	for _, name := range slices.Sorted(maps.Keys(h.Sinks)) {
		rows = append(rows, [2]string{"sink " + name, h.Sinks[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Sources)) {
		rows = append(rows, [2]string{"source " + name, h.Sources[name]})
	}
	return withValues(rows)
}
