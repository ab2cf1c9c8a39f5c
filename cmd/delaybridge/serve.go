package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func (a *app) serveCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run delaybridge with a configuration file",
		Long: `Run delaybridge with a configuration file. It logs to standard error. SIGTERM or
Ctrl-C stops it after the messages in flight are settled; a second signal stops it at
once.`,
		Example: "  delaybridge serve --config delaybridge.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(path)
		if err != nil {
			return err
		}
		return a.serve(cmd.Context(), c)
	})
	return cmd
}

// serve checks everything that can be checked before it opens what others see.
func (a *app) serve(ctx context.Context, c *config.Config) error {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is the console sink's trouble only
	log := newLogger(a.stderr, c.Log)
	redisstore.LogClient(log)
	sinks, err := openSinks(ctx, c, log, plugin.PatientOpener)
	if err != nil {
		return err
	}
	bridge, inputs, ready, err := assemble(ctx, c, sinks, log)
	if err != nil {
		return errors.Join(err, closeSinks(sinks))
	}
	log.Info("ready", ready...)
	err = a.runBridge(ctx, bridge, inputs)
	log.Info("stopped")
	return err
}
