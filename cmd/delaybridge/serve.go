package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/internal/failpoints"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

const envConfig = "DELAYBRIDGE_CONFIG"

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

// loadConfig reads the file that is named by a flag or else by the environment.
func loadConfig(path string) (*config.Config, error) {
	path = cmp.Or(path, os.Getenv(envConfig))
	if path == "" {
		return nil, usageError("no configuration file: give --config FILE or set " + envConfig)
	}
	c, err := config.Load(path, configOptions())
	return c, coded(exitConfig, err)
}

func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(strings.ToUpper(c.Level))) // checked by config; else info
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(visible{w}, options))
	}
	return slog.New(slog.NewTextHandler(visible{w}, options))
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
	bridge, ready, err := assemble(ctx, c, sinks, log)
	if err != nil {
		return errors.Join(err, closeSinks(sinks))
	}
	log.Info("ready", ready...)
	err = a.runBridge(ctx, bridge)
	log.Info("stopped")
	return err
}

// assemble opens the store and the listeners and sources, and tells what there is to know about
// them. On error all are closed.
func assemble(ctx context.Context, c *config.Config, sinks []*core.Dispatcher, log *slog.Logger) (bridge *core.Bridge, ready []any, err error) {
	redis, err := redisConfig(c, log)
	if err != nil {
		return nil, nil, err
	}
	opened, err := redisstore.Open(ctx, redis)
	if err != nil {
		return nil, nil, err
	}
	store := failpoints.Wrap(opened, sinks)
	in := core.NewInterceptor(store, c.Limits.Limits, sinks...)
	sources, err := newSources(c, in, log)
	if err != nil {
		return nil, nil, errors.Join(coded(exitConfig, err), store.Close())
	}
	inputs, told, err := openInputs(c, in, sources, log)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	ready = append([]any{"version", buildVersion()}, told...)
	ready = append(ready, "sinks", strings.Join(in.Sinks(), ","), "durability", in.Durability())
	bridge = &core.Bridge{Store: store, Sinks: sinks, Inputs: inputs, StopTimeout: c.ShutdownTimeout, Log: log}
	return bridge, ready, nil
}
