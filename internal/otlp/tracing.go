package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/core"
)

// TracingConfig configures Tracing.
type TracingConfig struct {
	Target
	// SampleRatio is the share of messages without a trace of which there are spans;
	// those with a trace have spans if their producer has sampled it. nil is as
	// OTEL_TRACES_SAMPLER says.
	SampleRatio *float64
	// Parent makes a delivery a child of the producer's span; else it is a trace of its
	// own that links to that.
	Parent            bool
	Version, Instance string // of this program
	Types             func() Types
	// Failures counts exports that failed; may be nil.
	Failures *atomic.Uint64
	Log      *slog.Logger
}

// Tracing makes spans of what happens to messages.
type Tracing struct {
	sampler  sampler
	parent   bool
	types    func() Types
	exporter *spanExporter
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// StartTracing exports spans until Close. It returns nil if tracing is not enabled.
func StartTracing(ctx context.Context, c TracingConfig) (*Tracing, error) {
	if !signalTraces.enabled(c.Target) {
		return nil, nil
	}
	sampler, err := newSampler(c.SampleRatio)
	if err != nil {
		return nil, err
	}
	described, err := newResource(ctx, c.Version, c.Instance)
	if err != nil {
		return nil, err
	}
	exporter, err := newSpanExporter(ctx, c.Target)
	if err != nil {
		return nil, fmt.Errorf("export of spans: %w", err)
	}
	size := queueSize()
	t := &Tracing{sampler: sampler, parent: c.Parent, types: c.Types,
		exporter: &spanExporter{SpanExporter: exporter, outage: outage{log: c.Log, what: "spans", failures: cmp.Or(c.Failures, new(atomic.Uint64))}, most: int64(size)}}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(t.exporter, sdktrace.WithMaxQueueSize(size))))
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(c.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return t, nil
}

func newSpanExporter(ctx context.Context, t Target) (sdktrace.SpanExporter, error) {
	protocol, err := signalTraces.protocol(t)
	switch {
	case err != nil:
		return nil, err
	case protocol == HTTP && t.Endpoint == "":
		return otlptracehttp.New(ctx)
	case protocol == HTTP:
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(signalTraces.urlOf(t)))
	case t.Endpoint == "":
		return otlptracegrpc.New(ctx)
	}
	return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(t.Endpoint))
}

// Observer returns what core.Options wants.
func (t *Tracing) Observer() core.Observer {
	return core.Observer{Accepted: t.onAccepted, Delivered: t.onDelivered}
}

// Dropped returns how many spans were not exported.
func (t *Tracing) Dropped() uint64 { return t.exporter.dropped.Load() }

// Close exports the spans that wait, until ctx ends. Call it when the bridge has ended.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }
