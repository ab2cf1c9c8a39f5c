package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/internal/failpoints"
)

// prepared is a configuration that was checked, with the sinks that it needs open, so that
// to apply it can't fail.
type prepared struct {
	config *config.Config
	redis  redisstore.Config
	sinks  []*core.Dispatcher
	opened []*core.Dispatcher // those of sinks that were opened for it
	events core.Sink          // of its own, that events are sent to; nil: none

	http    *httplistener.Server // none of them listens
	grpc    *grpclistener.Server // nil: none
	metrics *httplistener.Server // that serves only metrics; nil: none
}

// prepare checks everything of c, and opens the sinks that differ from those of before,
// which is nil at the start. plugins opens those: plugin.PatientOpener where one that
// does not start is not to be in the way of the others. On error, which has every
// fault, nothing was opened.
func prepare(ctx context.Context, c *config.Config, before *prepared, log *slog.Logger, plugins func(*slog.Logger) core.OpenFunc) (*prepared, error) {
	next := &prepared{config: c}
	named := make([]*core.Dispatcher, len(c.Sinks))
	for n, s := range c.Sinks {
		named[n] = &core.Dispatcher{Name: s.Name}
	}
	in := core.NewBridge(nil, core.Options{Limits: c.Limits.Limits}, named...).Interceptor
	faults := next.checkListeners(in, log)
	_, err := newSources(c, c.Sources, in, log)
	faults = append(faults, faultsOf(err)...)
	next.redis, err = redisConfig(c, log)
	faults = append(faults, faultsOf(err)...)
	faults = append(faults, next.openSinks(ctx, before, log, plugins)...)
	if len(faults) == 0 && c.Events.Sink != "" {
		faults = next.openEvents(ctx, before, log, plugins)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults, next.discard())
	}
	return next, nil
}

func faultsOf(err error) config.Faults {
	faults, _ := errors.AsType[config.Faults](err)
	return faults
}

func (p *prepared) checkListeners(in *core.Interceptor, log *slog.Logger) config.Faults {
	var err error
	p.http, err = httplistener.New(httpConfig(p.config, log), in)
	faults := faultsOf(p.config.Fault("http", err))
	if p.config.GRPC.Listen != "" {
		p.grpc, err = grpclistener.New(grpcConfig(p.config, log), in)
		faults = append(faults, faultsOf(p.config.Fault("grpc", err))...)
	}
	if p.config.Metrics.Listen != "" {
		p.metrics, err = httplistener.New(metricsConfig(p.config, log), in)
		faults = append(faults, faultsOf(p.config.Fault("metrics", err))...)
	}
	return faults
}

// openSinks makes a Dispatcher of each sink. One that is as before stays as it is, and one
// with other settings of delivery keeps its connections.
func (p *prepared) openSinks(ctx context.Context, before *prepared, log *slog.Logger, plugins func(*slog.Logger) core.OpenFunc) (faults config.Faults) {
	for _, s := range p.config.Sinks {
		old, former := before.sink(s.Name)
		kept := former != nil && sameSink(old, s)
		if kept && old.Timeout == s.Timeout && old.MaxBatch == s.MaxBatch && old.Retry == s.Retry {
			p.sinks = append(p.sinks, former)
			continue
		}
		d := &core.Dispatcher{Name: s.Name, Retry: s.Retry, Timeout: s.Timeout, MaxBatch: s.MaxBatch, Log: log}
		if kept {
			d.Sink = former.Sink
		} else {
			sink, err := sinkTypes(log.With("sink", s.Name), plugins)[s.Type](ctx, s.Config)
			if err != nil {
				faults = append(faults, faultsOf(p.config.Fault("sinks."+s.Name+".config", err))...)
				continue
			}
			d.Sink = failpoints.WrapSink(sink)
			p.opened = append(p.opened, d)
		}
		p.sinks = append(p.sinks, d)
	}
	return faults
}

// sameSink reports whether two settings open the same sink.
func sameSink(a, b config.Sink) bool {
	return a.Type == b.Type && bytes.Equal(a.Config, b.Config) && a.Contents == b.Contents
}

// eventsTimeout bounds the check of the topic of events.
const eventsTimeout = 5 * time.Second

// openEvents opens the sink of events once more, so that events and messages do not wait
// for each other, unless it is as before.
func (p *prepared) openEvents(ctx context.Context, before *prepared, log *slog.Logger, plugins func(*slog.Logger) core.OpenFunc) (faults config.Faults) {
	s, _ := p.sink(p.config.Events.Sink)
	if old, former := before.sink(s.Name); former != nil && before.events != nil && sameSink(old, s) {
		p.events = before.events
		return nil
	}
	sink, err := sinkTypes(log.With("sink", s.Name, "for", "events"), plugins)[s.Type](ctx, s.Config)
	if err != nil {
		return faultsOf(p.config.Fault("sinks."+s.Name+".config", err))
	}
	p.events, p.opened = failpoints.WrapSink(sink), append(p.opened, &core.Dispatcher{Name: s.Name + " of events", Sink: sink})
	checker, ok := core.Ability[core.Checker](sink)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	err = checker.Check(ctx, []*core.Message{{ID: "check", Sink: s.Name, Topic: p.config.Events.Topic, Key: []byte("check"), Body: []byte("{}")}})
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok { // else the broker can't be asked now
		return faultsOf(p.config.Fault("events", invalid))
	}
	return nil
}

// sink returns the sink of a name and what delivers to it, nil if there is none.
func (p *prepared) sink(name string) (config.Sink, *core.Dispatcher) {
	if p == nil {
		return config.Sink{}, nil
	}
	n := slices.IndexFunc(p.sinks, func(d *core.Dispatcher) bool { return d.Name == name })
	if n < 0 {
		return config.Sink{}, nil
	}
	return p.config.Sinks[n], p.sinks[n]
}

// discard closes what was opened for p.
func (p *prepared) discard() error { return closeSinks(p.opened) }

func closeSinks(sinks []*core.Dispatcher) error {
	var err error
	for _, s := range sinks {
		if closeErr := s.Sink.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink %s: %w", s.Name, closeErr))
		}
	}
	return err
}
