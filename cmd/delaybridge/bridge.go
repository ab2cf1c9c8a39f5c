package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/sinks/amqp"
	"github.com/delaybridge/delaybridge/sinks/console"
	"github.com/delaybridge/delaybridge/sinks/kafka"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/rocketmq"
)

// sinkTypes are the ways out that a configuration can name. A sink that is a
// process of its own logs to log.
func sinkTypes(log *slog.Logger, plugins func(*slog.Logger) core.OpenFunc) map[string]core.OpenFunc {
	return map[string]core.OpenFunc{
		"amqp":     amqp.Open,
		"console":  console.Open,
		"kafka":    kafka.Open,
		"plugin":   plugins(log),
		"rocketmq": rocketmq.Open,
	}
}

func configOptions() config.Options {
	return config.Options{SinkTypes: slices.Collect(maps.Keys(sinkTypes(nil, plugin.Opener))), SourceTypes: slices.Collect(maps.Keys(sourceTypes()))}
}

const envConfig = "DELAYBRIDGE_CONFIG"

// loadConfig reads the file that is named by a flag or else by the environment.
func loadConfig(path string) (*config.Config, error) {
	path = cmp.Or(path, os.Getenv(envConfig))
	if path == "" {
		return nil, usageError("no configuration file: use --config FILE or set " + envConfig)
	}
	c, err := config.Load(path, configOptions())
	return c, coded(exitConfig, err)
}

// redisConfig is the store as c wants it.
func redisConfig(c *config.Config, log *slog.Logger) (redisstore.Config, error) {
	s, r := c.Store, c.Store.Redis
	tlsConfig, err := r.TLS.Client()
	if err != nil {
		return redisstore.Config{}, c.Fault("store.redis.tls", err)
	}
	windows := make(map[string]time.Duration, len(c.Sinks))
	for _, sink := range c.Sinks {
		windows[sink.Name] = sink.DedupeWindow
	}
	return redisstore.Config{
		Addrs: r.Addrs, MasterName: r.MasterName, Cluster: r.Cluster, DB: r.DB, TLS: tlsConfig,
		Username: r.Username, Password: r.Password,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		Prefix: r.Prefix, Buckets: r.Buckets, AllowVolatile: r.AllowVolatile,
		Durability: s.Durability, Replicas: s.Replicas, DurabilityTimeout: s.DurabilityTimeout,
		Lease: s.Lease, Guard: s.Guard, DedupeWindows: windows, Log: log,
	}, nil
}

// errForced is the end by a second signal.
var errForced = errors.New("stopped at once by a second signal; what was in flight will be delivered again")

// runBridge runs b until ctx ends and it has drained, or until a second signal.
func (a *app) runBridge(ctx context.Context, b *core.Bridge, inputs []core.Input) error {
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, inputs...) }()
	select {
	case err := <-done:
		return err
	case <-a.forced:
		return errForced
	}
}
