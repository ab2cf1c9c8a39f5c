package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/internal/otlp/otlptest"
)

const (
	traceOfTest = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanOfTest  = "00f067aa0ba902b7"
)

func traceparent(flags string) core.Header {
	return core.Header{Name: "traceparent", Value: []byte("00-" + traceOfTest + "-" + spanOfTest + "-" + flags)}
}

func yes() *bool { b := true; return &b }

func types() Types {
	return Types{Sinks: map[string]string{"orders": "kafka"}, Sources: map[string]string{"in": "amqp"}}
}

func start(t *testing.T, c TracingConfig) *Tracing {
	t.Helper()
	c.Types, c.Version, c.Instance = types, "v1", "bridge-1"
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	traced, err := StartTracing(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(traced) })
	return traced
}

func closeSoon(traced *Tracing) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = traced.Close(ctx) // the collector may be gone
}

// sinkOf fails messages whose topic is bad.
type sinkOf struct{}

func (sinkOf) Deliver(_ context.Context, batch []*core.Message) error {
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		if m.Topic == "bad" {
			results[n] = core.Classify(core.Permanent, errors.New("no such topic"))
		}
	}
	return results
}

func (sinkOf) Close() error { return nil }

// inBridge accepts messages and waits until they are settled; then all spans are
// exported.
func inBridge(t *testing.T, traced *Tracing, messages ...*core.Message) {
	t.Helper()
	settled := make(chan int, 100)
	o := traced.Observer().And(core.Observer{Delivered: func(d core.Delivery) { settled <- len(d.Outcomes) }})
	bridge := core.NewBridge(memstore.New(memstore.Config{Buckets: 1}), core.Options{Observer: o}, &core.Dispatcher{Name: "orders", Sink: sinkOf{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bridge.Run(ctx) }()
	left := 0
	for _, r := range bridge.For("http").Accept(ctx, messages...) {
		if r.Err == nil {
			left++
		}
	}
	for left > 0 {
		left -= <-settled
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	closeSoon(traced)
}

// byName finds the one span of a name.
func byName(t *testing.T, c *otlptest.Collector, name string) otlptest.Span {
	t.Helper()
	var found []otlptest.Span
	for _, s := range c.Spans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %s, of %v", len(found), name, c.Spans())
	}
	return found[0]
}

// The four spans of a message, their relations and attributes, over both protocols.
func TestSpansOfMessage(t *testing.T) {
	for _, protocol := range []string{GRPC, HTTP} {
		for _, parent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parent %v", protocol, parent), func(t *testing.T) {
				c := otlptest.Start(t)
				endpoint := map[string]string{GRPC: c.GRPC, HTTP: c.HTTP}[protocol]
				inBridge(t, start(t, TracingConfig{Target: Target{Enabled: yes(), Endpoint: endpoint, Protocol: protocol}, Parent: parent}),
					&core.Message{ID: "a", Topic: "t", Body: []byte("body"), Delay: 20 * time.Millisecond, Headers: []core.Header{traceparent("01"), {Name: "tracestate", Value: []byte("a=b")}}})
				accept, park, deliver, send := byName(t, c, "accept t"), byName(t, c, "park t"), byName(t, c, "deliver t"), byName(t, c, "send t")
				if accept.Trace() != traceOfTest || hex.EncodeToString(accept.ParentSpanId) != spanOfTest || accept.TraceState != "a=b" {
					t.Errorf("accept is not a child of the producer's span: %v", accept)
				}
				if park.Trace() != traceOfTest || string(park.ParentSpanId) != string(accept.SpanId) {
					t.Errorf("park is not a child of accept: %v", park)
				}
				if send.Trace() != deliver.Trace() || string(send.ParentSpanId) != string(deliver.SpanId) {
					t.Errorf("send is not a child of deliver: %v", send)
				}
				wantDelivery(t, deliver, parent)
				wantAttributes(t, accept, park, deliver, send)
				if got := c.Resource("service.name") + " " + c.Resource("service.instance.id"); got != "delaybridge bridge-1" {
					t.Errorf("service %q", got)
				}
			})
		}
	}
}

func wantDelivery(t *testing.T, deliver otlptest.Span, parent bool) {
	t.Helper()
	if parent {
		if deliver.Trace() != traceOfTest || hex.EncodeToString(deliver.ParentSpanId) != spanOfTest || len(deliver.Links) != 0 {
			t.Errorf("deliver is not a child of the producer's span: %v", deliver)
		}
		return
	}
	if deliver.Trace() == traceOfTest || len(deliver.ParentSpanId) != 0 || len(deliver.Links) != 1 {
		t.Fatalf("deliver is not a root with a link: %v", deliver)
	}
	if l := deliver.Links[0]; hex.EncodeToString(l.TraceId) != traceOfTest || hex.EncodeToString(l.SpanId) != spanOfTest {
		t.Errorf("deliver links to %v", l)
	}
}

func wantAttributes(t *testing.T, accept, park, deliver, send otlptest.Span) {
	t.Helper()
	at, _ := deliver.Attributes["delaybridge.deliver_at"].(string)
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		t.Error(err)
	}
	if late, ok := deliver.Attributes["delaybridge.lateness_ms"].(int); !ok || late < 0 || late > 60_000 {
		t.Errorf("lateness %v", deliver.Attributes["delaybridge.lateness_ms"])
	}
	delete(deliver.Attributes, "delaybridge.lateness_ms")
	common := map[string]any{"messaging.destination.name": "t", "messaging.message.id": "a", "messaging.message.body.size": 4,
		"delaybridge.sink": "orders", "delaybridge.deliver_at": at}
	for _, want := range []struct {
		span otlptest.Span
		kind tracev1.Span_SpanKind
		own  map[string]any
	}{
		{accept, tracev1.Span_SPAN_KIND_SERVER, map[string]any{"messaging.system": "delaybridge", "messaging.operation.name": "accept",
			"messaging.operation.type": "receive", "delaybridge.input": "http", "delaybridge.durability": "memory"}},
		{park, tracev1.Span_SPAN_KIND_INTERNAL, map[string]any{"messaging.system": "delaybridge", "messaging.operation.name": "park", "delaybridge.durability": "memory"}},
		{deliver, tracev1.Span_SPAN_KIND_CONSUMER, map[string]any{"messaging.system": "delaybridge", "messaging.operation.name": "deliver",
			"messaging.operation.type": "process", "delaybridge.attempt": 1, "delaybridge.bucket": "orders/0", "delaybridge.state": "delivered"}},
		{send, tracev1.Span_SPAN_KIND_PRODUCER, map[string]any{"messaging.system": "kafka", "messaging.operation.name": "send",
			"messaging.operation.type": "send", "delaybridge.attempt": 1}},
	} {
		for key, value := range common {
			want.own[key] = value
		}
		if diff := cmp.Diff(want.own, want.span.Attributes); diff != "" || want.span.Kind != want.kind {
			t.Errorf("%s is of kind %s (-want +got):\n%s", want.span.Name, want.span.Kind, diff)
		}
		if want.span.EndTimeUnixNano < want.span.StartTimeUnixNano || want.span.StartTimeUnixNano == 0 || want.span.Status.GetCode() != 0 {
			t.Errorf("%v", want.span)
		}
	}
}

// What fails is an error of the spans that are about it.
func TestSpansOfFailures(t *testing.T) {
	c := otlptest.Start(t)
	inBridge(t, start(t, TracingConfig{Target: Target{Enabled: yes(), Endpoint: c.GRPC, Protocol: GRPC}}),
		&core.Message{ID: "a", Topic: "bad", Headers: []core.Header{traceparent("01")}},
		&core.Message{ID: "b", Topic: "in valid", Headers: []core.Header{traceparent("01")}})
	accept := byName(t, c, "accept") // two topics, so none in the name
	if accept.Attributes["error.type"] != "invalid" || accept.Attributes["delaybridge.refused"] != 1 || accept.Attributes["messaging.batch.message_count"] != 2 ||
		accept.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR || !strings.HasPrefix(accept.Status.Message, "topic: ") {
		t.Errorf("accept: %v", accept)
	}
	for _, name := range []string{"deliver bad", "send bad"} {
		s := byName(t, c, name)
		if s.Attributes["error.type"] != "permanent" || s.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR || !strings.Contains(s.Status.Message, "no such topic") {
			t.Errorf("%s: %v", name, s)
		}
	}
	if state := byName(t, c, "deliver bad").Attributes["delaybridge.state"]; state != "dead" {
		t.Errorf("state %v", state)
	}
}

// Of messages of one trace that come together, accept and park are one span each; what
// the producer has not sampled has none.
func TestSpansOfBatch(t *testing.T) {
	c := otlptest.Start(t)
	batch := make([]*core.Message, 0, 60)
	for n := range 60 {
		flags := "00"
		if n >= 20 && n < 50 {
			flags = "01"
		}
		batch = append(batch, &core.Message{Topic: "t", Headers: []core.Header{traceparent(flags)}})
	}
	inBridge(t, start(t, TracingConfig{Target: Target{Enabled: yes(), Endpoint: c.GRPC, Protocol: GRPC}}), batch...)
	counts := map[string]int{}
	for _, s := range c.Spans() {
		counts[s.Name]++
	}
	// The flag is part of no trace: all 60 are in one call.
	if diff := cmp.Diff(map[string]int{"accept t": 1, "park t": 1, "deliver t": 30, "send t": 30}, counts); diff != "" {
		t.Error(diff)
	}
	if n := byName(t, c, "accept t").Attributes["messaging.batch.message_count"]; n != 60 {
		t.Errorf("accept has %v messages", n)
	}
}

// A receiver that never answers, or refuses, costs spans, which are counted, and no time.
func TestExporterThatHangs(t *testing.T) {
	const size, calls = 64, 1000
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", fmt.Sprint(size))
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "200")
	for name, trouble := range map[string]func(*otlptest.Collector){
		"hangs":   (*otlptest.Collector).Hold,
		"refuses": func(c *otlptest.Collector) { c.Fail(status.Error(codes.PermissionDenied, "no")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := otlptest.Start(t)
			trouble(c)
			var log strings.Builder
			traced := start(t, TracingConfig{Target: Target{Enabled: yes(), Endpoint: c.GRPC, Protocol: GRPC}, Log: slog.New(slog.NewTextHandler(&log, nil))})
			now, o := time.Now(), traced.Observer()
			m := []*core.Message{{ID: "a", Topic: "t", Headers: []core.Header{traceparent("01")}}}
			for range calls {
				o.Accepted(t.Context(), core.Acceptance{Messages: m, Receipts: make([]core.Receipt, 1), Began: now, Checked: now, Ended: now})
			}
			if took := time.Since(now); took > 5*time.Second {
				t.Errorf("the bridge was held up for %s", took)
			}
			if !poll.Holds(time.Minute, func() bool { return traced.Dropped() == 2*calls }) {
				t.Errorf("%d of %d spans are counted", traced.Dropped(), 2*calls)
			}
			c.Release()
			c.Fail(nil)
			o.Accepted(t.Context(), core.Acceptance{Messages: m, Receipts: make([]core.Receipt, 1), Began: now, Checked: now, Ended: now})
			if !poll.Holds(time.Minute, func() bool { return len(c.Spans()) >= 2 }) {
				t.Errorf("nothing is exported when it works again")
			}
			closeSoon(traced)
			if text := log.String(); strings.Count(text, "export fails") != 1 || strings.Count(text, "export works again") != 1 {
				t.Errorf("log:\n%s", text)
			}
		})
	}
}

func TestTracingIsOff(t *testing.T) {
	no := false
	for name, test := range map[string]struct {
		enabled *bool
		env     map[string]string
		want    bool
	}{
		"nothing is set":           {nil, nil, false},
		"by the environment":       {nil, map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"none by the environment":  {nil, map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
		"disabled":                 {nil, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, false},
		"configuration wins":       {&no, map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, false},
		"configuration wins again": {yes(), map[string]string{"OTEL_TRACES_EXPORTER": "none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			traced, err := StartTracing(t.Context(), TracingConfig{Target: Target{Enabled: test.enabled}, Log: slog.New(slog.DiscardHandler)})
			if err != nil || (traced != nil) != test.want {
				t.Errorf("tracing is %v, %v", traced != nil, err)
			}
			if traced != nil {
				closeSoon(traced)
			}
		})
	}
}

func TestEnvironmentIsRefused(t *testing.T) {
	for key, value := range map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_TRACES_SAMPLER": "sometimes", "OTEL_RESOURCE_ATTRIBUTES": "a"} {
		t.Run(key, func(t *testing.T) {
			t.Setenv(key, value)
			if traced, err := StartTracing(t.Context(), TracingConfig{Target: Target{Enabled: yes()}, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("got %v, %v", traced, err)
			}
		})
	}
}

// Each attribute is in the guide.
func TestAttributesAreDocumented(t *testing.T) {
	code, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"(delaybridge\.[a-z_]+)"`).FindAllSubmatch(code, -1) {
		if !bytes.Contains(guide, fmt.Appendf(nil, "`%s`", key[1])) {
			t.Errorf("docs/tracing.md has no %s", key[1])
		}
	}
}
