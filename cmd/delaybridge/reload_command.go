package main

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) reloadCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the bridge read its configuration file again",
		Long: `Have the instance that answers read its configuration file again. It checks all of it,
and then applies all or nothing: the exit code is 3 if it is refused. The other
instances do not change. --dry-run only prints what would change.`,
		Example: "  delaybridge reload --dry-run\n  delaybridge reload -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	cmd = a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		done, err := s.Reload(ctx, dryRun)
		if err != nil {
			return err
		}
		if !s.forPeople() {
			return s.object(s.answer)
		}
		return s.reloaded(done)
	})
	_ = cmd.Flags().Set("timeout", "2m")
	cmd.Flags().Lookup("timeout").DefValue = "2m"
	return cmd
}

func (p printer) reloaded(done client.Reload) error {
	changes := make([][]string, len(done.Changes))
	for n, one := range done.Changes {
		changes[n] = []string{one.Key, one.Kind, one.Old, one.New}
	}
	if err := p.changes(changes); err != nil {
		return err
	}
	rows := [][2]string{{"generation", strconv.Itoa(done.Generation)}, {"not stopped", done.NotStopped}}
	for _, name := range slices.Sorted(maps.Keys(done.Parked)) {
		rows = append(rows, [2]string{"parked for " + name, strconv.Itoa(done.Parked[name])})
	}
	return p.pairs(withValues(rows))
}

// changes prints differences of configurations.
func (p printer) changes(changes [][]string) error {
	if len(changes) == 0 {
		return p.print("nothing has changed\n")
	}
	return p.table(append([][]string{{"KEY", "CHANGE", "OLD", "NEW"}}, changes...))
}
