package otlp

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/internal/otlp/otlptest"
)

// The metrics are those of the Gatherer, and the same numbers under OpenTelemetry's names.
func TestMetricsOfGatherer(t *testing.T) {
	m := metrics.New(metrics.Config{Topics: map[string][]string{"orders": {"t"}}})
	now := time.Now()
	messages := []*core.Message{{ID: "a", Topic: "t", Attempt: 1}, {ID: "b", Topic: "u", Attempt: 1}, {ID: "c", Attempt: 1}, {ID: "d", Attempt: 1}}
	m.Observer().Delivered(core.Delivery{Sink: "orders", Batch: core.Batch{Messages: messages, Now: now, Local: now}, Asked: now, Taken: now, Called: now,
		Returned: now.Add(20 * time.Millisecond), Settled: now.Add(30 * time.Millisecond), Outcomes: []core.Outcome{{ID: "a", State: core.Delivered},
			{ID: "b", State: core.Delivered}, {ID: "c", State: core.Retrying, Reason: "retry"}, {ID: "d", State: core.Dead, Reason: "retry"}}})
	records := prometheus.NewRegistry()
	source := promauto.With(records).NewCounterVec(prometheus.CounterOpts{Name: "delaybridge_source_records_total"}, []string{"source", "result"})
	source.WithLabelValues("in", "parked").Add(4)
	source.WithLabelValues("in", "rejected").Add(1)

	for _, protocol := range []string{GRPC, HTTP} {
		t.Run(protocol, func(t *testing.T) {
			c := otlptest.Start(t)
			endpoint := map[string]string{GRPC: c.GRPC, HTTP: c.HTTP}[protocol]
			exported, err := StartMetrics(t.Context(), MetricsConfig{Target: Target{Enabled: yes(), Endpoint: endpoint, Protocol: protocol}, Interval: time.Hour,
				Gatherer: prometheus.Gatherers{m.Gatherer(), records}, Types: types, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := exported.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if c.Metric("delaybridge_messages_delivered_total") == nil || c.Metric("go_goroutines") == nil {
				t.Error("a metric of the Gatherer is missing")
			}
			wantMetrics(t, c)
		})
	}
}

func wantMetrics(t *testing.T, c *otlptest.Collector) {
	t.Helper()
	common := "kafka send send orders"
	want := []point{{common + "  ", 1}, {common + "  retry", 2}, {common + " t ", 1}} // topic u is not listed
	if got := points(c.Metric("messaging.client.sent.messages")); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	if got := points(c.Metric("messaging.client.consumed.messages")); !slices.Equal(got, []point{{"rabbitmq receive receive in  ", 5}}) {
		t.Errorf("consumed %v", got)
	}
	calls := c.Metric("messaging.client.operation.duration").GetExponentialHistogram().GetDataPoints()
	if len(calls) != 1 || calls[0].Count != 1 || *calls[0].Sum != 0.02 || otlptest.Attributes(calls[0].Attributes)["messaging.system"] != "kafka" {
		t.Errorf("operation.duration: %v", calls)
	}
}

// point is a count with its attributes in one text.
type point struct {
	attributes string
	count      float64
}

func points(m *metricsv1.Metric) (all []point) {
	for _, p := range m.GetSum().GetDataPoints() {
		a := otlptest.Attributes(p.Attributes)
		text := func(key string) string { s, _ := a[key].(string); return s }
		all = append(all, point{text("messaging.system") + " " + text("messaging.operation.name") + " " + text("messaging.operation.type") + " " +
			text("delaybridge.sink") + text("delaybridge.source") + " " + text("messaging.destination.name") + " " + text("error.type"), p.GetAsDouble()})
	}
	slices.SortFunc(all, func(a, b point) int { return strings.Compare(a.attributes, b.attributes) })
	return all
}

func TestMetricsAreExportedAgain(t *testing.T) {
	c := otlptest.Start(t)
	exported, err := StartMetrics(t.Context(), MetricsConfig{Target: Target{Enabled: yes(), Endpoint: c.HTTP}, Interval: 20 * time.Millisecond,
		Gatherer: metrics.New(metrics.Config{}).Gatherer(), Types: types, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if !poll.Holds(time.Minute, func() bool { return c.Calls() > 3 }) {
		t.Errorf("%d exports", c.Calls())
	}
	if err := exported.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
