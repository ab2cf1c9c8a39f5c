package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/internal/failpoints"
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

// openSinks opens every sink of c and checks the rest that can be checked
// without opening anything. plugins opens those: plugin.PatientOpener where one that
// does not start is not to be in the way of the others. On error, which has every
// fault, nothing is open.
func openSinks(ctx context.Context, c *config.Config, log *slog.Logger, plugins func(*slog.Logger) core.OpenFunc) ([]*core.Dispatcher, error) {
	var sinks []*core.Dispatcher
	faults := checkInputs(c, log)
	for _, s := range c.Sinks {
		sink, err := sinkTypes(log.With("sink", s.Name), plugins)[s.Type](ctx, s.Config)
		if err != nil {
			more, _ := errors.AsType[config.Faults](c.Fault("sinks."+s.Name+".config", err))
			faults = append(faults, more...)
			continue
		}
		sinks = append(sinks, &core.Dispatcher{Name: s.Name, Sink: sink, Retry: s.Retry, Timeout: s.Timeout, MaxBatch: s.MaxBatch, Log: log})
	}
	if len(faults) == 0 { // else the sources would miss sinks
		_, err := newSources(c, core.NewBridge(nil, core.Options{Limits: c.Limits.Limits}, sinks...).Interceptor, log)
		faults, _ = errors.AsType[config.Faults](err)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults, closeSinks(sinks))
	}
	return sinks, nil
}

func closeSinks(sinks []*core.Dispatcher) error {
	var err error
	for _, s := range sinks {
		if closeErr := s.Sink.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink %s: %w", s.Name, closeErr))
		}
	}
	return err
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

// assemble opens the store and the listeners and sources, and reports what there is to know about
// them. On error all but the sinks are closed.
func assemble(ctx context.Context, c *config.Config, sinks []*core.Dispatcher, log *slog.Logger) (bridge *core.Bridge, inputs []core.Input, ready []any, err error) {
	redis, err := redisConfig(c, log)
	if err != nil {
		return nil, nil, nil, err
	}
	opened, err := redisstore.Open(ctx, redis)
	if err != nil {
		return nil, nil, nil, err
	}
	store := failpoints.Wrap(opened, sinks)
	bridge = core.NewBridge(store, core.Options{Limits: c.Limits.Limits, StopTimeout: c.ShutdownTimeout}, sinks...)
	sources, err := newSources(c, bridge.Interceptor, log)
	if err != nil {
		return nil, nil, nil, errors.Join(coded(exitConfig, err), store.Close())
	}
	inputs, told, err := openInputs(c, bridge.Interceptor, sources, log)
	if err != nil {
		return nil, nil, nil, errors.Join(err, store.Close())
	}
	ready = append([]any{"version", buildVersion()}, told...)
	return bridge, inputs, append(ready, "sinks", strings.Join(bridge.Sinks(), ","), "durability", bridge.Durability()), nil
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
