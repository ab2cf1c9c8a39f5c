package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) contextCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "context",
		Short: "Store how bridges are reached, under names",
		Long: `Store how bridges are reached, under names: URL, token file, and files for TLS. The
contexts are in delaybridge/contexts.json in the user's directory for configuration,
without tokens.

A flag comes first, then a variable of the environment, then the context, then the
default. The context is the one that --context names, or ` + envContext + `, or
context use. An explicit --context comes before the environment. A context is not used
at all if a flag or the environment gives another URL.`,
		Example: "  delaybridge context add prod --url https://delaybridge.example:7420 --token-file ~/.delaybridge-token\n  delaybridge context use prod",
	}, a.contextAddCommand(), a.contextListCommand(), a.contextUseCommand(), a.contextRemoveCommand())
}

func (a *app) contextAddCommand() *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:               "add NAME --url URL",
		Short:             "Add a context, or replace it",
		Example:           "  delaybridge context add prod --url https://delaybridge.example:7420 --token-file token --ca ca.pem",
		Args:              oneArgument("the name of the context"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.add(cmd.Flags())
	_ = cmd.MarkFlagRequired("url") // it fails only for a flag that does not exist
	cmd.MarkFlagsRequiredTogether("cert", "cert-key")
	cmd.RunE = a.runE(func(_ *cobra.Command, names []string) error {
		for _, path := range []*string{&c.TokenFile, &c.CA, &c.Cert, &c.CertKey} {
			if err := makeAbsolute(path); err != nil {
				return err
			}
		}
		config, err := c.config()
		if err != nil {
			return err
		}
		if _, err := client.New(config); err != nil {
			return clientUsage(err)
		}
		return changeContexts(func(all *contexts) error {
			all.Contexts[names[0]] = c
			return nil
		})
	})
	return cmd
}

func makeAbsolute(path *string) error {
	if *path == "" {
		return nil
	}
	absolute, err := filepath.Abs(*path)
	if err != nil {
		return fmt.Errorf("find %s: %w", *path, err)
	}
	*path = absolute
	return nil
}

func changeContexts(change func(all *contexts) error) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.store()
}

func (a *app) contextListCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List contexts",
		Example: "  delaybridge context list",
		Args:    cobra.NoArgs,
	}
	outputFlag(cmd, &output)
	cmd.RunE = a.runE(func(*cobra.Command, []string) error {
		out, err := newPrinter(a.stdout, output)
		if err != nil {
			return err
		}
		all, err := loadContexts()
		if err != nil {
			return err
		}
		if !out.forPeople() {
			return out.value(all)
		}
		rows := [][]string{{"CURRENT", "NAME", "URL", "TOKEN FILE", "CA", "CERT"}}
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			c, mark := all.Contexts[name], ""
			if name == all.Current {
				mark = "*"
			}
			rows = append(rows, []string{mark, name, c.URL, c.TokenFile, c.CA, c.Cert})
		}
		return out.table(rows)
	})
	return cmd
}

func (a *app) contextUseCommand() *cobra.Command {
	return a.contextChange(&cobra.Command{
		Use:     "use NAME",
		Short:   "Use a context from now on",
		Example: "  delaybridge context use prod",
	}, func(all *contexts, name string) { all.Current = name })
}

func (a *app) contextRemoveCommand() *cobra.Command {
	return a.contextChange(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a context",
		Example: "  delaybridge context remove prod",
	}, func(all *contexts, name string) {
		delete(all.Contexts, name)
		if all.Current == name {
			all.Current = ""
		}
	})
}

// contextChange makes cmd do something with a context that is there.
func (a *app) contextChange(cmd *cobra.Command, change func(all *contexts, name string)) *cobra.Command {
	cmd.Args = oneArgument("the name of the context")
	cmd.ValidArgsFunction = completeContexts
	cmd.RunE = a.runE(func(_ *cobra.Command, names []string) error {
		return changeContexts(func(all *contexts) error {
			if _, err := all.find(names[0]); err != nil {
				return err
			}
			change(all, names[0])
			return nil
		})
	})
	return cmd
}
