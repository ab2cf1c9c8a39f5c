package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// MetricsConfig configures Metrics.
type MetricsConfig struct {
	Target
	// Interval is the time between exports; zero is OTEL_METRIC_EXPORT_INTERVAL, or a
	// minute.
	Interval          time.Duration
	Gatherer          prometheus.Gatherer // of package metrics
	Version, Instance string              // of this program
	Types             func() Types
	Failures          *atomic.Uint64 // counts exports that failed; may be nil
	Log               *slog.Logger
}

// Metrics exports metrics.
type Metrics struct{ provider *sdkmetric.MeterProvider }

// StartMetrics exports the metrics of a Gatherer every so often until Close. It returns
// nil if that is not enabled.
func StartMetrics(ctx context.Context, c MetricsConfig) (*Metrics, error) {
	if !signalMetrics.enabled(c.Target) {
		return nil, nil
	}
	described, err := newResource(ctx, c.Version, c.Instance)
	if err != nil {
		return nil, err
	}
	exporter, err := newMetricExporter(ctx, c.Target)
	if err != nil {
		return nil, fmt.Errorf("export of metrics: %w", err)
	}
	all := &producer{Producer: bridge.NewMetricProducer(bridge.WithGatherer(c.Gatherer)), version: c.Version, types: c.Types}
	options := []sdkmetric.PeriodicReaderOption{sdkmetric.WithProducer(all)}
	if c.Interval > 0 {
		options = append(options, sdkmetric.WithInterval(c.Interval))
	}
	reader := sdkmetric.NewPeriodicReader(&metricExporter{exporter, outage{log: c.Log, what: "metrics", failures: cmp.Or(c.Failures, new(atomic.Uint64))}}, options...)
	return &Metrics{sdkmetric.NewMeterProvider(sdkmetric.WithResource(described), sdkmetric.WithReader(reader))}, nil
}

func newMetricExporter(ctx context.Context, t Target) (sdkmetric.Exporter, error) {
	protocol, err := signalMetrics.protocol(t)
	switch {
	case err != nil:
		return nil, err
	case protocol == HTTP && t.Endpoint == "":
		return otlpmetrichttp.New(ctx)
	case protocol == HTTP:
		return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(signalMetrics.urlOf(t)))
	case t.Endpoint == "":
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(t.Endpoint))
}

// Close exports a last time, until ctx ends.
func (m *Metrics) Close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
