package otlp

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/delaybridge/delaybridge/core"
)

// spanExporter bounds the spans that wait to be exported, and counts those that are not:
// the library drops silently what is too much.
type spanExporter struct {
	sdktrace.SpanExporter
	outage
	most    int64
	waiting atomic.Int64
	dropped atomic.Uint64
}

// queueSize is how many spans may wait.
func queueSize() int {
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		return n
	}
	return 8192
}

// room reports whether n more spans can wait. They must then be made; else they count as
// dropped.
func (e *spanExporter) room(n int64) bool {
	if e.waiting.Add(n) <= e.most {
		return true
	}
	e.waiting.Add(-n)
	e.dropped.Add(uint64(n))
	return false
}

// ExportSpans implements sdktrace.SpanExporter. It never returns an error, as it has told
// of it.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.dropped.Add(uint64(len(spans)))
	}
	e.note(err)
	return nil
}

// metricExporter is an exporter that tells of failures once.
type metricExporter struct {
	sdkmetric.Exporter
	outage
}

// Export implements sdkmetric.Exporter. The next export has the same counts and more, so
// that one that fails costs nothing.
func (e *metricExporter) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	e.note(e.Exporter.Export(ctx, metrics))
	return nil
}

// outage counts exports that fail, and logs when they begin to, and when they work again.
type outage struct {
	log      *slog.Logger
	what     string
	failures *atomic.Uint64

	mu    sync.Mutex
	since time.Time // zero: exports work
}

func (o *outage) note(err error) {
	if err != nil {
		o.failures.Add(1)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil && o.since.IsZero():
		o.since = time.Now()
		o.log.Warn("export fails, the bridge is not affected", "what", o.what, "err", core.Shorten(err.Error(), core.MaxErrorText))
	case err == nil && !o.since.IsZero():
		o.log.Info("export works again", "what", o.what, "failed_for", time.Since(o.since).Round(time.Second))
		o.since = time.Time{}
	}
}
