package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/otlp/otlptest"
)

// discard is an exporter that is as quick as can be.
type discard struct{ sdktrace.SpanExporter }

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

// BenchmarkObserver is what spans cost of 500 messages: one call of Accept, and one batch.
func BenchmarkObserver(b *testing.B) {
	now := time.Now()
	one := 0.01
	for _, test := range []struct {
		name  string
		ratio *float64
		flags func(n int) string // none: no trace
	}{
		{"no trace, 1 percent", &one, nil},
		{"not sampled", nil, func(int) string { return "00" }},
		{"1 percent", nil, func(n int) string {
			if n%100 == 0 {
				return "01"
			}
			return "00"
		}},
		{"100 percent", nil, func(int) string { return "01" }},
	} {
		c := otlptest.Start(b)
		traced, err := StartTracing(b.Context(), TracingConfig{Target: Target{Enabled: yes(), Endpoint: c.GRPC, Protocol: GRPC}, SampleRatio: test.ratio,
			Types: types, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		traced.exporter.SpanExporter, traced.exporter.most = discard{traced.exporter.SpanExporter}, 1<<40
		o := traced.Observer()
		messages, receipts, outcomes := make([]*core.Message, 500), make([]core.Receipt, 500), make([]core.Outcome, 500)
		for n := range messages {
			id := fmt.Sprintf("%023d", n)
			messages[n] = &core.Message{ID: id, Sink: "orders", Topic: "t", Attempt: 1, DeliverAt: now, Headers: []core.Header{{Name: "content-type"}}}
			if test.flags != nil { // each of another trace
				header := fmt.Appendf(nil, "00-%032x-00f067aa0ba902b7-%s", n+1, test.flags(n))
				messages[n].Headers = append(messages[n].Headers, core.Header{Name: "traceparent", Value: header})
			}
			receipts[n], outcomes[n] = core.Receipt{ID: id, Sink: "orders"}, core.Outcome{ID: id, State: core.Delivered}
		}
		b.Run("accepted/"+test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Accepted(context.Background(), core.Acceptance{Input: "http", Messages: messages, Receipts: receipts, Began: now, Checked: now, Ended: now})
			}
		})
		b.Run("delivered/"+test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Delivered(core.Delivery{Sink: "orders", Batch: core.Batch{Messages: messages, Now: now, Local: now}, Outcomes: outcomes,
					Asked: now, Taken: now, Called: now, Returned: now, Settled: now})
			}
		})
		closeSoon(traced)
	}
}
