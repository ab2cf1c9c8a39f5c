package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/events"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/internal/otlp"
)

// telemetry is what a bridge tells about itself. What is not wanted is nil.
type telemetry struct {
	metrics  *metrics.Metrics
	tracing  *otlp.Tracing
	exported *otlp.Metrics
	events   *events.Stream
	types    atomic.Pointer[otlp.Types]
	failures struct{ spans, metrics atomic.Uint64 } // of exports
	log      *slog.Logger
}

// startTelemetry starts what c wants of the named instance. loaded tells about the
// configuration; nil if there is none.
func startTelemetry(ctx context.Context, c *config.Config, instance string, loaded func() metrics.Loaded, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{events: events.New(instance), log: log}
	otlp.LogLibrary(log)
	types := func() otlp.Types { return *t.types.Load() }
	var err error
	t.tracing, err = otlp.StartTracing(ctx, otlp.TracingConfig{Target: otlp.Target(c.Tracing.Target), SampleRatio: c.Tracing.SampleRatio,
		Parent: c.Tracing.Parent, Version: buildVersion(), Instance: instance, Types: types, Failures: &t.failures.spans, Log: log})
	if err != nil {
		return nil, coded(exitConfig, err)
	}
	if c.Metrics.Enabled {
		t.metrics = t.newMetrics(loaded)
	}
	if t.adopt(c); t.metrics == nil {
		return t, nil
	}
	t.exported, err = otlp.StartMetrics(ctx, otlp.MetricsConfig{Target: otlp.Target(c.Metrics.OTLP.Target), Interval: c.Metrics.OTLP.Interval,
		Gatherer: t.metrics.Gatherer(), Version: buildVersion(), Instance: instance, Types: types, Failures: &t.failures.metrics, Log: log})
	if err != nil {
		t.close()
		return nil, coded(exitConfig, err)
	}
	return t, nil
}

func (t *telemetry) newMetrics(loaded func() metrics.Loaded) *metrics.Metrics {
	config := metrics.Config{Version: buildVersion(), Loaded: loaded,
		ExportsFailed: map[string]func() uint64{"spans": t.failures.spans.Load, "metrics": t.failures.metrics.Load}}
	if t.tracing != nil {
		config.SpansDropped = t.tracing.Dropped
	}
	return metrics.New(config)
}

// adopt takes the sinks and sources of another configuration.
func (t *telemetry) adopt(c *config.Config) {
	topics := make(map[string][]string, len(c.Sinks))
	types := otlp.Types{Sinks: make(map[string]string, len(c.Sinks)), Sources: make(map[string]string, len(c.Sources))}
	for _, s := range c.Sinks {
		types.Sinks[s.Name], topics[s.Name] = s.Type, s.MetricTopics
	}
	for _, s := range c.Sources {
		types.Sources[s.Name] = s.Type
	}
	t.types.Store(&types)
	if t.metrics != nil {
		t.metrics.Adopt(topics)
	}
}

func (t *telemetry) observer() (o core.Observer) {
	o = t.events.Observer()
	if t.metrics != nil {
		o = t.metrics.Observer().And(o)
	}
	if t.tracing != nil {
		o = o.And(t.tracing.Observer())
	}
	return o
}

func (t *telemetry) countEvents() metrics.Events { return metrics.Events(t.events.Counts()) }

// telemetryTimeout bounds the last exports, for which the end of the program waits.
const telemetryTimeout = 3 * time.Second

// close exports what is left.
func (t *telemetry) close() {
	ctx, cancel := context.WithTimeout(context.Background(), telemetryTimeout)
	defer cancel()
	var err error
	if t.tracing != nil {
		err = t.tracing.Close(ctx)
	}
	if t.exported != nil {
		err = errors.Join(err, t.exported.Close(ctx))
	}
	if err != nil {
		t.log.Warn("the last spans or metrics could not be exported", "err", err)
	}
}
