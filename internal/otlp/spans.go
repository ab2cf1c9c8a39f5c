package otlp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// step is a span in the making: what has happened is known before it is made.
type step struct {
	operation, topic string
	kind             trace.SpanKind
	from, to         time.Time
	attributes       []attribute.KeyValue
	reason, failure  string // of an error; else empty
}

// record makes the span. Its parent is that of ctx; it returns a context for children.
func (t *Tracing) record(ctx context.Context, s step, options ...trace.SpanStartOption) context.Context {
	s.attributes = append(s.attributes, semconv.MessagingOperationName(s.operation))
	if s.topic != "" {
		s.attributes = append(s.attributes, semconv.MessagingDestinationName(s.topic))
	}
	if s.reason != "" {
		s.attributes = append(s.attributes, semconv.ErrorTypeKey.String(s.reason))
	}
	ctx, span := t.tracer.Start(ctx, spanName(s.operation, s.topic), append(options, trace.WithSpanKind(s.kind), trace.WithTimestamp(s.from))...)
	span.SetAttributes(s.attributes...)
	if s.reason != "" {
		span.SetStatus(codes.Error, core.Shorten(s.failure, core.MaxErrorText))
	}
	span.End(trace.WithTimestamp(s.to))
	return ctx
}

// onAccepted makes the spans of the messages of a call that are of one trace, and in a
// row, together.
func (t *Tracing) onAccepted(_ context.Context, a core.Acceptance) {
	from, sampled := 0, false
	var first core.Trace
	for n, m := range a.Messages {
		next, ok := m.Trace()
		if n > 0 && (!bytes.Equal(next.ID, first.ID) || !bytes.Equal(next.Parent, first.Parent)) {
			if sampled {
				t.accept(&a, a.Messages[from:n], a.Receipts[from:n])
			}
			from, sampled = n, false
		}
		first, sampled = next, sampled || t.sampler.takes(m, next, ok)
	}
	if sampled {
		t.accept(&a, a.Messages[from:], a.Receipts[from:])
	}
}

// accept makes the spans of messages of one trace.
func (t *Tracing) accept(a *core.Acceptance, messages []*core.Message, receipts []core.Receipt) {
	s := step{operation: opAccept, topic: oneTopic(messages), kind: trace.SpanKindConsumer, from: a.Began, to: a.Ended}
	if a.Input == "http" || a.Input == "grpc" {
		s.kind = trace.SpanKindServer
	}
	about := ofMessages(messages, receipts)
	parked, spans := s.sum(receipts), int64(1)
	if parked {
		spans = 2
	}
	if !t.exporter.room(spans) {
		return
	}
	s.attributes = append(s.attributes, keyInput.String(a.Input), semconv.MessagingOperationTypeReceive)
	s.attributes = append(s.attributes, about...)
	ctx := t.record(trace.ContextWithRemoteSpanContext(context.Background(), producerOf(messages[0])), s)
	if parked {
		s.operation, s.kind, s.from = opPark, trace.SpanKindInternal, a.Checked
		s.attributes = about
		t.record(ctx, s)
	}
}

// sum notes what became of the messages, and reports whether some came to the store.
func (s *step) sum(receipts []core.Receipt) (parked bool) {
	duplicates, refused := 0, 0
	for n := range receipts {
		r := &receipts[n]
		if r.Duplicate {
			duplicates++
		}
		if r.Err != nil {
			if refused++; refused == 1 {
				s.reason, s.failure = apierror.Of(r.Err).Code, r.Err.Error()
			}
		}
		_, invalid := errors.AsType[*core.InvalidError](r.Err)
		parked = parked || !invalid
	}
	if duplicates > 0 {
		s.attributes = append(s.attributes, keyDuplicates.Int(duplicates))
	}
	if refused > 0 {
		s.attributes = append(s.attributes, keyRefused.Int(refused))
	}
	return parked
}

func (t *Tracing) onDelivered(d core.Delivery) {
	find := d.Finder()
	for n := range d.Outcomes {
		m := find(d.Outcomes[n].ID)
		if trace, ok := m.Trace(); t.sampler.takes(m, trace, ok) {
			t.deliver(&d, m, &d.Outcomes[n])
		}
	}
}

// deliver makes the spans of one message of a batch.
func (t *Tracing) deliver(d *core.Delivery, m *core.Message, o *core.Outcome) {
	tried := !d.Called.IsZero() && o.State != core.Expired && (o.State != core.Dead || o.Attempts == m.Attempt)
	spans := int64(1)
	if tried {
		spans = 2
	}
	if !t.exporter.room(spans) {
		return
	}
	s := step{operation: opDeliver, topic: m.Topic, kind: trace.SpanKindConsumer, from: d.Asked, to: d.Settled}
	if o.State != core.Delivered {
		s.reason, s.failure = o.Reason, o.Error
	}
	send := s
	if d.Err != nil && s.reason == "" {
		s.reason, s.failure = "unsettled", d.Err.Error()
	}
	s.attributes = append(ofMessage(m, m.DeliverAt), semconv.MessagingSystemKey.String(own), semconv.MessagingOperationTypeProcess,
		keyAttempt.Int(m.Attempt), keyBucket.String(d.Bucket), keyState.String(string(o.State)))
	if o.State == core.Delivered {
		s.attributes = append(s.attributes, keyLateness.Int64(d.Lateness(m).Milliseconds()))
	}
	producer := producerOf(m)
	var ctx context.Context
	if t.parent || !producer.IsValid() {
		ctx = t.record(trace.ContextWithRemoteSpanContext(context.Background(), producer), s)
	} else {
		ctx = t.record(context.Background(), s, trace.WithLinks(trace.Link{SpanContext: producer}))
	}
	if tried {
		send.operation, send.kind, send.from, send.to = opSend, trace.SpanKindProducer, d.Called, d.Returned
		send.attributes = append(ofMessage(m, m.DeliverAt), semconv.MessagingSystemKey.String(systemOf(t.types().Sinks[d.Sink])),
			semconv.MessagingOperationTypeSend, keyAttempt.Int(m.Attempt))
		t.record(ctx, send)
	}
}

func oneTopic(messages []*core.Message) string {
	for _, m := range messages {
		if m.Topic != messages[0].Topic {
			return ""
		}
	}
	return messages[0].Topic
}

// ofMessages are the attributes of accepted messages that have one span.
func ofMessages(messages []*core.Message, receipts []core.Receipt) []attribute.KeyValue {
	system, durability := semconv.MessagingSystemKey.String(own), keyDurability.String(receipts[0].Durability)
	if len(messages) == 1 {
		return append(ofMessage(messages[0], receipts[0].DeliverAt), system, durability)
	}
	return []attribute.KeyValue{semconv.MessagingBatchMessageCount(len(messages)), keySink.String(messages[0].Sink), system, durability}
}

// producerOf returns the producer's span, which is not valid if there is none.
func producerOf(m *core.Message) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers(m.Headers)))
}

// headers is a propagation.TextMapCarrier.
type headers []core.Header

// Get implements propagation.TextMapCarrier.
func (h headers) Get(name string) string {
	for n := range h {
		if strings.EqualFold(h[n].Name, name) {
			return string(h[n].Value)
		}
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (h headers) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (h headers) Keys() []string { return nil }
