package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Check, show and compare configuration files",
		Example: "  delaybridge config check delaybridge.yaml\n  delaybridge config diff old.yaml new.yaml",
	}, a.configCheckCommand(), a.configShowCommand(), a.configDiffCommand())
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
		Args:    atMostOneFile,
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	cmd.Flags().BoolVar(&deep, "deep", false, "also start the plugins, which then check their settings")
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			path = args[0]
		}
		return a.checkConfig(cmd.Context(), path, deep)
	})
	return cmd
}

// checkConfig checks the file at path; if deep, also by starting its plugins.
func (a *app) checkConfig(ctx context.Context, path string, deep bool) error {
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	plugins := plugin.Checker
	if deep {
		plugins = plugin.Opener
	}
	checked, err := prepare(ctx, c, nil, slog.New(slog.DiscardHandler), plugins)
	if err != nil {
		return err
	}
	if err := checked.discard(); err != nil {
		return err
	}
	inputs := "HTTP on " + c.HTTP.Listen
	if c.GRPC.Listen != "" {
		inputs += ", gRPC on " + c.GRPC.Listen
	}
	return printer{w: a.stdout}.print(fmt.Sprintf("ok: %s, %s\n", counted(len(c.Sinks), "sink"), inputs))
}
