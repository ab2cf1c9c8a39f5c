package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Look after the configuration file",
		Example: "  delaybridge config check delaybridge.yaml",
	}, a.configCheckCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	var path string
	var deep bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file, without connecting to or executing anything",
		Long: `Check a configuration file, and the files that it names, without connecting to
anything. Every fault is printed as file:line:column; then the exit code is 3.

Plugins are not executed, so what they say of their own settings is not known:
--deep starts each of them and asks.`,
		Example: "  delaybridge config check delaybridge.yaml\n  delaybridge config check --deep delaybridge.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (env "+envConfig+")")
	cmd.Flags().BoolVar(&deep, "deep", false, "start the plugins, so that they check their settings")
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			path = args[0]
		}
		c, err := loadConfig(path)
		if err != nil {
			return err
		}
		plugins := plugin.Checker
		if deep {
			plugins = plugin.Opener
		}
		sinks, err := openSinks(cmd.Context(), c, slog.New(slog.DiscardHandler), plugins)
		if err != nil {
			return err
		}
		if err := closeSinks(sinks); err != nil {
			return err
		}
		doors := "HTTP on " + c.HTTP.Listen
		if c.GRPC.Listen != "" {
			doors += ", gRPC on " + c.GRPC.Listen
		}
		if _, err = fmt.Fprintf(a.stdout, "ok: %s, %s\n", counted(len(c.Sinks), "sink"), doors); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
		return nil
	})
	return cmd
}
