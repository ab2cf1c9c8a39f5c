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
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file, without connecting to anything",
		Long: `Check a configuration file, and the files that it names, without connecting to
anything. Every fault is printed as file:line:column; then the exit code is 3.`,
		Example: "  delaybridge config check delaybridge.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (env "+envConfig+")")
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			path = args[0]
		}
		c, err := loadConfig(path)
		if err != nil {
			return err
		}
		sinks, err := openSinks(cmd.Context(), c, slog.New(slog.DiscardHandler), plugin.Opener)
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
