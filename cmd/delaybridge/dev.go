package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/core/redisstore"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/sinks/console"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// devFlags are what dev can be told.
type devFlags struct {
	listen, grpc, redis, config string
	length                      time.Duration
	noSamples                   bool
}

const devSink = "console"

func (a *app) devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try delaybridge without Redis, broker or configuration",
		Long: `Run a bridge for trials: it parks messages in memory, or in the Redis that --redis
names, and prints them when they are due. Not for production.

With --config, it delivers to the sinks of that file instead. The sections store and
http of the file are ignored, and may be missing, and so is events.`,
		Example: "  delaybridge dev\n  delaybridge dev --for 15s\n  delaybridge dev --redis redis://127.0.0.1:6379 --no-samples\n  delaybridge dev --config sinks.yaml",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "address of the HTTP listener (default 127.0.0.1:7420, or the next free port)")
	flags.StringVar(&f.grpc, "grpc", "", "address of a gRPC listener, such as 127.0.0.1:7421 (default: none)")
	flags.StringVar(&f.redis, "redis", "", "URL of a Redis to park in, redis://user:password@host:6379/0 (default: memory)")
	flags.StringVar(&f.config, "config", "", "path of a configuration file whose sinks, limits, retry and log are used")
	flags.DurationVar(&f.length, "for", 0, "time after which the command ends (default: never)")
	flags.BoolVar(&f.noSamples, "no-samples", false, "send no sample messages")
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error {
		if f.length < 0 {
			return usageError("--for must not be negative")
		}
		return a.dev(cmd.Context(), f)
	})
	return cmd
}

// devBridge is a bridge of one console sink, or of those in a file.
type devBridge struct {
	*core.Bridge
	store core.Store
	sinks []*core.Dispatcher
	input *httplistener.Server
	addr  net.Addr
	moved string // why the listener is not where it was expected

	telemetry *telemetry

	grpc     *grpclistener.Server // nil: none
	grpcAddr net.Addr
}

func (a *app) dev(ctx context.Context, f devFlags) error {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is the console sink's trouble only
	b, err := a.openDev(ctx, f)
	if err != nil {
		return err
	}
	b.printBanner(a, f)
	if !f.noSamples {
		if err := b.sendSamples(ctx); err != nil {
			return errors.Join(err, b.store.Close(), closeSinks(b.sinks))
		}
	}
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	err = a.runBridge(ctx, b.Bridge, b.inputs())
	b.telemetry.close()
	b.printTotals(a)
	return err
}

func (a *app) openDev(ctx context.Context, f devFlags) (*devBridge, error) {
	b := &devBridge{}
	c, log, err := a.devConfig(f.config)
	if err != nil {
		return nil, err
	}
	if b.sinks, err = a.openDevSinks(ctx, f, c, log); err != nil {
		return nil, err
	}
	redis := redisstore.Config{AllowVolatile: true, Instance: redisstore.NewInstanceName(), Log: log}
	if b.telemetry, err = startTelemetry(ctx, c, redis.Instance, nil, log); err != nil {
		return nil, errors.Join(err, closeSinks(b.sinks))
	}
	m := b.telemetry.metrics
	if m != nil {
		redis.Called = m.OnRedisCall
	}
	if b.store, err = openDevStore(ctx, f.redis, redis); err != nil {
		return nil, errors.Join(err, closeSinks(b.sinks))
	}
	b.Bridge = core.NewBridge(b.store, core.Options{Limits: c.Limits.Limits, Observer: b.telemetry.observer()}, b.sinks...)
	if m != nil {
		m.Watch(metrics.Watched{Bridge: b.Interceptor, Events: b.telemetry.countEvents})
	}
	if err := b.openInput(f.listen, log); err != nil {
		return nil, errors.Join(err, b.store.Close(), closeSinks(b.sinks))
	}
	if err := b.openGRPC(f.grpc, log); err != nil {
		return nil, errors.Join(err, closeInputs(b.inputs()), b.store.Close(), closeSinks(b.sinks))
	}
	about := core.About{Version: buildVersion(), Config: c.Hash, Listeners: map[string]string{"http": b.addr.String()}}
	if b.grpc != nil {
		about.Listeners["grpc"] = b.grpcAddr.String()
	}
	b.SetAbout(about)
	return b, nil
}

// devConfig is the file at path, or what holds without one.
func (a *app) devConfig(path string) (*config.Config, *slog.Logger, error) {
	if path == "" {
		return &config.Config{Metrics: config.Metrics{Enabled: true}}, newLogger(a.stderr, config.Log{}, slog.LevelWarn), nil
	}
	options := configOptions()
	options.NoStore = true
	c, err := config.Load(path, options)
	if err != nil {
		return nil, nil, coded(exitConfig, err)
	}
	c.Events = config.Events{} // they wait in Redis
	return c, newLogger(a.stderr, c.Log, levelOf(c.Log)), nil
}

func (a *app) openDevSinks(ctx context.Context, f devFlags, c *config.Config, log *slog.Logger) ([]*core.Dispatcher, error) {
	if f.config != "" {
		checked, err := prepare(ctx, c, nil, log, plugin.Opener)
		if err != nil {
			return nil, err
		}
		return checked.sinks, nil
	}
	printer, err := console.New(a.stdout, console.Human)
	if err != nil {
		return nil, err
	}
	return []*core.Dispatcher{{Name: devSink, Sink: printer, Log: log}}, nil
}

func openDevStore(ctx context.Context, redisURL string, c redisstore.Config) (core.Store, error) {
	if redisURL == "" {
		return memstore.New(memstore.Config{Log: c.Log}), nil
	}
	r, err := config.ParseRedisURL(redisURL)
	if err != nil {
		return nil, usageError("--redis " + err.Error())
	}
	tlsConfig, err := r.TLS.Client()
	if err != nil {
		return nil, err
	}
	redisstore.LogClient(c.Log)
	c.Addrs, c.Username, c.Password, c.DB, c.TLS = r.Addrs, r.Username, r.Password, r.DB, tlsConfig
	return redisstore.Open(ctx, c)
}

// The ports that are tried when none was asked for.
const (
	devPort  = 7420
	devPorts = 10
)

// openInput listens where it was asked to, else on the first free port.
func (b *devBridge) openInput(addr string, log *slog.Logger) error {
	if addr != "" {
		return b.listenOn(addr, log)
	}
	for port := devPort; ; port++ {
		err := b.listenOn(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), log)
		if err == nil && port > devPort {
			b.moved = fmt.Sprintf("port %d is taken, so this is on %d", devPort, port)
		}
		if err == nil || !isInUse(err) || port == devPort+devPorts-1 {
			return err
		}
	}
}

func (b *devBridge) listenOn(addr string, log *slog.Logger) (err error) {
	settings := httplistener.Config{Listen: addr, Events: b.telemetry.events, Log: log}
	if m := b.telemetry.metrics; m != nil {
		settings.Metrics = m.Handler()
	}
	if b.input, err = httplistener.New(settings, b.For("http")); err != nil {
		return coded(exitUsage, err)
	}
	b.addr, err = listen(b.input)
	return err
}

// openGRPC listens where it was asked to, if it was.
func (b *devBridge) openGRPC(addr string, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	made, err := grpclistener.New(grpclistener.Config{Listen: addr, Reflection: true, Log: log}, b.For("grpc"))
	if err != nil {
		return coded(exitUsage, err)
	}
	if b.grpcAddr, err = listen(made); err != nil {
		return err
	}
	b.grpc = made
	return nil
}

func (b *devBridge) inputs() []core.Input {
	inputs := []core.Input{{Name: "http listener", Run: b.input.Run}}
	if b.grpc != nil {
		inputs = append(inputs, core.Input{Name: "grpc listener", Run: b.grpc.Run})
	}
	return inputs
}
