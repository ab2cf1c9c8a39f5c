//go:build unix

package integration

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/internal/otlp/otlptest"
)

// TestTraceFromProducerToConsumer: a producer sends in a span over HTTP, Redis parks, Kafka
// delivers, and a consumer continues the trace. All export to one collector.
func TestTraceFromProducerToConsumer(t *testing.T) {
	g := kafkaTarget(t, servers.Kafka4)
	collector := otlptest.Start(t)
	arrivals := g.consume(t)
	bridge := serve(t, tracedConfig(t, g, collector.GRPC), output(t))
	producer, consumer := tracerOf(t, collector.GRPC, "shop"), tracerOf(t, collector.GRPC, "mailer")

	ctx, span := producer.Start(t.Context(), "checkout", trace.WithSpanKind(trace.SpanKindProducer))
	postInSpan(ctx, t, bridge.url, fmt.Sprintf(`{"id":"order-42","topic":%q,"delay":"300ms","body":"hello"}`, g.topic))
	span.End()
	a := <-arrivals
	carrier := propagation.MapCarrier{}
	for _, h := range a.headers {
		carrier[h.Name] = string(h.Value)
	}
	got := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
	if got.TraceID() != span.SpanContext().TraceID() || got.SpanID() != span.SpanContext().SpanID() || !got.IsSampled() {
		t.Fatalf("the consumer has %s, the producer's span is %s", carrier["traceparent"], span.SpanContext().SpanID())
	}
	_, processed := consumer.Start(trace.ContextWithRemoteSpanContext(t.Context(), got), "process "+g.topic, trace.WithSpanKind(trace.SpanKindConsumer))
	processed.End()

	if !poll.Holds(time.Minute, func() bool {
		return len(collector.Spans()) >= 6 && collector.Metric("messaging.client.sent.messages") != nil
	}) {
		t.Fatalf("received %v", collector.Spans())
	}
	bridge.stop()
	spans := collector.Spans()
	printTrace(t, spans)
	for name, parent := range map[string]string{"accept " + g.topic: "checkout", "park " + g.topic: "accept " + g.topic, "deliver " + g.topic: "",
		"send " + g.topic: "deliver " + g.topic, "process " + g.topic: "checkout", "checkout": ""} {
		if got := parentOf(spans, named(t, spans, name)); got != parent {
			t.Errorf("the parent of %s is %q, not %q", name, got, parent)
		}
	}
	deliver := named(t, spans, "deliver "+g.topic)
	if len(deliver.Links) != 1 || hex.EncodeToString(deliver.Links[0].SpanId) != span.SpanContext().SpanID().String() {
		t.Errorf("deliver has the links %v", deliver.Links)
	}
	if id := deliver.Attributes["messaging.message.id"]; id != "order-42" {
		t.Errorf("deliver is about %v", id)
	}
}

// tracedConfig is as an operator writes it who sets everything in the file.
func tracedConfig(t *testing.T, g *target, endpoint string) string {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal([]byte(bridgeConfig(t, map[string]*target{"orders": g})), &config); err != nil {
		t.Fatal(err)
	}
	config["tracing"] = map[string]any{"enabled": true, "endpoint": endpoint, "protocol": "grpc"}
	config["metrics"] = map[string]any{"otlp": map[string]any{"enabled": true, "endpoint": endpoint, "protocol": "grpc", "interval": "1s"}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tracerOf is that of another program.
func tracerOf(t *testing.T, endpoint, service string) trace.Tracer {
	t.Helper()
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(service))))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) }) // its spans are exported already
	return provider.Tracer(service)
}

func postInSpan(ctx context.Context, t *testing.T, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
}

func named(t *testing.T, spans []otlptest.Span, name string) otlptest.Span {
	t.Helper()
	n := slices.IndexFunc(spans, func(s otlptest.Span) bool { return s.Name == name })
	if n < 0 {
		t.Fatalf("there is no span %s", name)
	}
	return spans[n]
}

// parentOf returns the name of the span's parent; empty if it is the first of its trace.
func parentOf(spans []otlptest.Span, child otlptest.Span) string {
	for _, s := range spans {
		if s.Trace() == child.Trace() && string(s.SpanId) == string(child.ParentSpanId) {
			return s.Name
		}
	}
	return ""
}

// printTrace logs the spans as they were received, by their start, below their parents.
func printTrace(t *testing.T, spans []otlptest.Span) {
	t.Helper()
	slices.SortFunc(spans, func(a, b otlptest.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	began := spans[0].StartTimeUnixNano
	var print func(parent otlptest.Span, indent string)
	print = func(s otlptest.Span, indent string) {
		line := fmt.Sprintf("%s%s  %+dms, %.1f ms, %s", indent, s.Name, (s.StartTimeUnixNano-began)/1e6, float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6, s.Kind)
		for _, l := range s.Links {
			line += ", links to " + hex.EncodeToString(l.TraceId) + "/" + hex.EncodeToString(l.SpanId)
		}
		t.Logf("%s\n%s  %v", line, indent, s.Attributes)
		for _, child := range spans {
			if child.Trace() == s.Trace() && string(child.ParentSpanId) == string(s.SpanId) {
				print(child, indent+"  ")
			}
		}
	}
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 {
			t.Logf("trace %s, span %s", s.Trace(), s.ID())
			print(s, "  ")
		}
	}
}
