package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/events"
	"github.com/delaybridge/delaybridge/internal/failpoints"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// instance is a bridge that runs a configuration file, and can read it again.
type instance struct {
	path    string
	log     *slog.Logger
	level   *slog.LevelVar
	reloads reloads

	telemetry *telemetry
	sender    *events.Sender // nil: none
	store     *redisstore.Store
	bridge    *core.Bridge
	http      *httplistener.Server
	grpc      *grpclistener.Server // nil: none
	metrics   *httplistener.Server // that serves only metrics; nil: none
	listeners []core.Input
	addrs     map[string]string // of the listeners

	turn    chan struct{} // has room for who applies a configuration, and guards present and sources
	ending  chan struct{} // closed when none is to be applied any more
	present *prepared
	sources []*source.Supervisor // that run, by name
}

func newInstance(path string, w io.Writer, c config.Log) *instance {
	i := &instance{path: path, level: new(slog.LevelVar), addrs: make(map[string]string), turn: make(chan struct{}, 1), ending: make(chan struct{})}
	i.level.Set(levelOf(c))
	i.log = newLogger(w, c, i.level)
	return i
}

// start applies the configuration for the first time. It checks everything that can be
// checked before it opens what others see, and returns what there is to know, as a logger
// takes it. On error nothing is open.
func (i *instance) start(ctx context.Context, c *config.Config) (told []any, err error) {
	first, err := prepare(ctx, c, nil, i.log, plugin.PatientOpener)
	if err != nil {
		return nil, err
	}
	first.redis.Instance = redisstore.NewInstanceName()
	if i.telemetry, err = startTelemetry(ctx, c, first.redis.Instance, i.reloads.loaded, i.log); err != nil {
		return nil, errors.Join(err, first.discard())
	}
	told, err = i.open(ctx, first)
	if err == nil {
		if _, err = i.apply(first); err != nil {
			err = errors.Join(err, closeInputs(i.listeners), i.store.Close())
		}
	}
	if err != nil {
		i.telemetry.close()
		return nil, errors.Join(err, first.discard())
	}
	return append(told, "sinks", strings.Join(i.bridge.Sinks(), ","), "durability", i.bridge.Durability()), nil
}

// open opens what stays until the end: the store and the listeners.
func (i *instance) open(ctx context.Context, first *prepared) (told []any, err error) {
	c, m := first.config, i.telemetry.metrics
	options := core.Options{Limits: c.Limits.Limits, StopTimeout: c.ShutdownTimeout, Observer: i.telemetry.observer()}
	if m != nil {
		first.redis.Called = m.OnRedisCall
	}
	if first.events != nil {
		first.redis.Final = i.telemetry.events.Final(c.Events.Bodies)
	}
	if i.store, err = redisstore.Open(ctx, first.redis); err != nil {
		return nil, err
	}
	i.bridge = core.NewBridge(failpoints.Wrap(i.store), options)
	if m != nil {
		m.Watch(metrics.Watched{Bridge: i.bridge.Interceptor, Memory: i.memory, ClockOffset: i.store.ClockOffset, Events: i.telemetry.countEvents})
	}
	if first.events != nil {
		s, _ := first.sink(c.Events.Sink)
		i.sender = i.telemetry.events.SendTo(first.events, events.SenderConfig{Name: s.Name, Topic: c.Events.Topic, Bodies: c.Events.Bodies,
			Timeout: s.Timeout, Outbox: i.store, Log: i.log})
		i.listeners = append(i.listeners, core.Input{Name: "sender of events", Run: i.sender.Run})
	}
	told = []any{"version", buildVersion()}
	more, err := i.openListeners(c, m)
	if err != nil {
		return nil, errors.Join(err, closeInputs(i.listeners), i.store.Close())
	}
	if told = append(told, more...); len(c.Sources) > 0 {
		names := make([]string, len(c.Sources))
		for n, s := range c.Sources {
			names[n] = s.Name
		}
		told = append(told, "sources", strings.Join(slices.Sorted(slices.Values(names)), ","))
	}
	return told, nil
}

func (i *instance) memory(ctx context.Context) (metrics.Memory, error) {
	memory, err := i.store.Memory(ctx)
	return metrics.Memory(memory), err
}

// openListeners makes the listeners that c wants, and has them listen.
func (i *instance) openListeners(c *config.Config, m *metrics.Metrics) (told []any, err error) {
	settings := httpConfig(c, i.log)
	settings.Events, settings.Reload, settings.LastReload = i.telemetry.events, i.reloadByRequest, i.reloads.LastError
	if m != nil && c.Metrics.Listen == "" {
		settings.Metrics = m.Handler()
	}
	i.http, err = httplistener.New(settings, i.bridge.For("http"))
	made, all := []string{"http"}, []input{i.http}
	if err == nil && c.GRPC.Listen != "" {
		i.grpc, err = grpclistener.New(grpcConfig(c, i.log), i.bridge.For("grpc"))
		made, all = append(made, "grpc"), append(all, i.grpc)
	}
	if err == nil && m != nil && c.Metrics.Listen != "" {
		settings := metricsConfig(c, i.log)
		settings.Metrics = m.Handler()
		i.metrics, err = httplistener.New(settings, i.bridge.For("metrics"))
		made, all = append(made, "metrics"), append(all, i.metrics)
	}
	if err != nil {
		return nil, coded(exitConfig, err)
	}
	for n, listener := range all {
		addr, err := listen(listener)
		if err != nil {
			return nil, err
		}
		i.listeners = append(i.listeners, core.Input{Name: made[n] + " listener", Run: listener.Run})
		i.addrs[made[n]] = addr.String()
		told = append(told, made[n], addr.String())
	}
	return told, nil
}

// apply puts next in the place of what runs, and reports whether it has: only a bridge
// that has ended refuses. If it has, the error is about what did not stop, or start.
func (i *instance) apply(next *prepared) (done bool, err error) {
	stay, stop, start := i.changeOfSources(next)
	i.level.Set(levelOf(next.config.Log))
	// A source that still reads would reject records for a sink that is gone.
	stopped := i.bridge.StopInputs(stop...)
	i.store.Adopt(next.redis)
	i.telemetry.adopt(next.config)
	applied := i.bridge.Apply(next.config.Limits.Limits, next.sinks...)
	if applied != nil && !errors.Is(applied, core.ErrNotStopped) {
		return false, applied
	}
	i.http.Adopt(next.http)
	if i.grpc != nil {
		i.grpc.Adopt(next.grpc)
	}
	if i.metrics != nil {
		i.metrics.Adopt(next.metrics)
	}
	if i.present != nil && i.present.events != next.events {
		stopped = errors.Join(stopped, i.sender.Adopt(next.events))
	}
	i.present = next
	started, err := newSources(next.config, start, i.bridge.Interceptor, i.log)
	for _, s := range started {
		stay = append(stay, s)
		err = errors.Join(err, i.bridge.StartInputs(sourceInput(s)))
	}
	slices.SortFunc(stay, func(a, b *source.Supervisor) int { return cmp.Compare(a.Name, b.Name) })
	i.sources = stay
	i.tell(next.config)
	return true, errors.Join(stopped, applied, err)
}

// changeOfSources returns the sources that go on as they are, the inputs that are to
// stop, and what is to start.
func (i *instance) changeOfSources(next *prepared) (stay []*source.Supervisor, stop []string, start []config.Source) {
	start = slices.Clone(next.config.Sources)
	for _, s := range i.sources {
		same := func(c config.Source) bool { return c.Name == s.Name && i.present.hasSource(c) }
		if slices.ContainsFunc(start, same) {
			stay, start = append(stay, s), slices.DeleteFunc(start, same)
		} else {
			stop = append(stop, sourcePart(s.Name))
		}
	}
	return stay, stop, start
}

// hasSource reports whether p has the very same source.
func (p *prepared) hasSource(s config.Source) bool {
	return slices.ContainsFunc(p.config.Sources, func(old config.Source) bool {
		return old.Name == s.Name && old.Type == s.Type && bytes.Equal(old.Config, s.Config) && old.Contents == s.Contents
	})
}

// tell sets what the instance tells about itself when it runs c.
func (i *instance) tell(c *config.Config) {
	running := i.sources
	i.bridge.SetAbout(core.About{Version: buildVersion(), Config: c.Hash, Listeners: i.addrs, Sources: func() (reports []core.SourceReport) {
		for _, s := range running {
			reports = append(reports, s.Report())
		}
		return reports
	}})
}
