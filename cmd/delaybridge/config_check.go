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
		Short:   "Check the configuration file",
		Example: "  delaybridge config check delaybridge.yaml",
	}, a.configCheckCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	var path string
	var deep bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file without connecting or executing anything",
		Long: `Check a configuration file, and the files that it names, without connecting to
anything. Each error is printed with file, line and column, and the exit code is 3.

Plugins are not executed, so their own settings are not checked. --deep starts each
plugin and asks it.`,
		Example: "  delaybridge config check delaybridge.yaml\n  delaybridge config check --deep delaybridge.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	cmd.Flags().BoolVar(&deep, "deep", false, "also start the plugins, which then check their settings")
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
		inputs := "HTTP on " + c.HTTP.Listen
		if c.GRPC.Listen != "" {
			inputs += ", gRPC on " + c.GRPC.Listen
		}
		if _, err = fmt.Fprintf(a.stdout, "ok: %s, %s\n", counted(len(c.Sinks), "sink"), inputs); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
		return nil
	})
	return cmd
}
