package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/core/redisstore"
)

// watchEvery is how often --watch looks at the files.
const watchEvery = 2 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var path string
	var watch bool
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run delaybridge with a configuration file",
		Long: `Run delaybridge with a configuration file. It logs to standard error. SIGTERM or
Ctrl-C stops it after the messages in flight are settled; a second signal stops it at
once.

SIGHUP and delaybridge reload have it read the file again, and so does a change of the
file if --watch is given. The whole file is checked before anything of it is applied.`,
		Example: "  delaybridge serve --config delaybridge.yaml\n  delaybridge serve --config delaybridge.yaml --watch",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	cmd.Flags().BoolVar(&watch, "watch", false, "reload when the file, or one that it names, has changed")
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error {
		every := time.Duration(0)
		if watch {
			every = watchEvery
		}
		return a.serve(cmd.Context(), cmp.Or(path, os.Getenv(envConfig)), every)
	})
	return cmd
}

func (a *app) serve(ctx context.Context, path string, watch time.Duration) error {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is the console sink's trouble only
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	i := newInstance(path, a.stderr, c.Log)
	redisstore.LogClient(i.log)
	told, err := i.start(ctx, c)
	if err != nil {
		return err
	}
	i.reloads.note(true, nil)
	i.log.Info("ready", told...)
	reloading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { i.reloadAt(reloading, hangups, watch); close(ended) }()
	err = a.runBridge(ctx, i.bridge, i.listeners)
	stop()
	select {
	case <-ended:
	case <-time.After(c.ShutdownTimeout):
		i.log.Warn("a reload has not ended, and is not waited for", "timeout", c.ShutdownTimeout)
	}
	i.telemetry.close()
	if i.sender != nil {
		err = errors.Join(err, i.sender.Close())
	}
	i.log.Info("stopped")
	return err
}
