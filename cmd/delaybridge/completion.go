package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// complete offers values for a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeContexts offers the names of the stored contexts.
func completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout bounds how long a shell waits for the bridge.
const completionTimeout = 2 * time.Second

// completeSinks offers the sinks of the bridge that the flags before name.
func (a *app) completeSinks(f *sessionFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		f.timeout = completionTimeout
		s, err := a.session(*f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		stats, err := s.Stats(ctx, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for _, one := range stats.Sinks {
			names = append(names, one.Sink)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
