// Package otlptest has a receiver of OpenTelemetry's protocol, for tests.
package otlptest

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector receives spans and metrics, until the test ends.
type Collector struct {
	GRPC, HTTP string // the URLs where it listens

	mu      sync.Mutex
	spans   []Span
	metrics map[string]*metricsv1.Metric
	service map[string]string
	calls   int
	failure error
	held    chan struct{} // closed when calls may return; nil: they return at once
}

// Span is a span with its attributes as texts, numbers and such.
type Span struct {
	*tracev1.Span
	Attributes map[string]any
}

// Trace returns the ID of the span's trace, as traceparent has it.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// ID returns the ID of the span, as traceparent has it.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Start returns a Collector that listens on loopback.
func Start(t testing.TB) *Collector {
	c := &Collector{metrics: make(map[string]*metricsv1.Metric), service: make(map[string]string)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(server, traceService{c: c})
	metricscollector.RegisterMetricsServiceServer(server, metricsService{c: c})
	go func() { _ = server.Serve(listener) }() // it returns when the server stops
	web := httptest.NewServer(c.routes())
	c.GRPC, c.HTTP = "http://"+listener.Addr().String(), web.URL
	t.Cleanup(func() {
		c.Release()
		server.Stop()
		web.Close()
	})
	return c
}

func (c *Collector) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", handler(traceService{c: c}.Export))
	mux.HandleFunc("POST /v1/metrics", handler(metricsService{c: c}.Export))
	return mux
}

// handler answers with what the gRPC service does.
func handler[Q, A any, Request interface {
	*Q
	proto.Message
}, Answer interface {
	*A
	proto.Message
}](export func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := Request(new(Q))
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := export(r.Context(), request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		text, _ := proto.Marshal(answer) // it is empty
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(text) // whoever asked may be gone
	}
}

// Fail has calls return an error; nil ends that.
func (c *Collector) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// Hold has calls not return before Release.
func (c *Collector) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
}

// Release ends Hold.
func (c *Collector) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

// begin waits while calls are held.
func (c *Collector) begin() error {
	c.mu.Lock()
	c.calls++
	held, failure := c.held, c.failure
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	return failure
}

// Calls returns how often something was exported, or it was tried.
func (c *Collector) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Spans returns what was received, in that order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Metric returns what was received last of a metric; nil: nothing.
func (c *Collector) Metric(name string) *metricsv1.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Resource returns an attribute of who exported last.
func (c *Collector) Resource(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.service[key]
}

func (c *Collector) addResource(attributes []*commonv1.KeyValue) {
	for _, a := range attributes {
		c.service[a.Key] = a.Value.GetStringValue()
	}
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	c *Collector
}

// Export implements tracecollector.TraceServiceServer.
func (s traceService) Export(_ context.Context, request *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	if err := s.c.begin(); err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, r := range request.ResourceSpans {
		s.c.addResource(r.Resource.GetAttributes())
		for _, scope := range r.ScopeSpans {
			for _, span := range scope.Spans {
				s.c.spans = append(s.c.spans, Span{span, Attributes(span.Attributes)})
			}
		}
	}
	return &tracecollector.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	c *Collector
}

// Export implements metricscollector.MetricsServiceServer.
func (s metricsService) Export(_ context.Context, request *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	if err := s.c.begin(); err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, r := range request.ResourceMetrics {
		s.c.addResource(r.Resource.GetAttributes())
		for _, scope := range r.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.c.metrics[m.Name] = m
			}
		}
	}
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

// Attributes returns attributes by their keys.
func Attributes(of []*commonv1.KeyValue) map[string]any {
	all := make(map[string]any, len(of))
	for _, a := range of {
		switch v := a.Value.Value.(type) {
		case *commonv1.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			all[a.Key] = int(v.IntValue)
		default:
			all[a.Key] = a.Value
		}
	}
	return all
}
