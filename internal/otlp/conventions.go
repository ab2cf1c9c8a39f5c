package otlp

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

// producer has the metrics under their own names, and those that OpenTelemetry has a
// name for under that as well.
type producer struct {
	sdkmetric.Producer
	version string
	types   func() Types
}

// Produce implements sdkmetric.Producer.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.Producer.Produce(ctx)
	for n := range scopes {
		s := &scopes[n]
		s.Scope = instrumentation.Scope{Name: scope, Version: p.version, SchemaURL: semconv.SchemaURL}
		s.Metrics = append(s.Metrics, p.conventional(s.Metrics)...)
	}
	return scopes, err
}

func (p *producer) conventional(all []metricdata.Metrics) (named []metricdata.Metrics) {
	types := p.types()
	send := labels{keySink, types.Sinks, semconv.MessagingOperationName(opSend), semconv.MessagingOperationTypeSend}
	receive := labels{keySource, types.Sources, semconv.MessagingOperationName(opReceive), semconv.MessagingOperationTypeReceive}
	var sent, consumed sum
	for _, m := range all {
		switch m.Name {
		case "delaybridge_messages_delivered_total", "delaybridge_messages_retried_total", "delaybridge_messages_dead_total":
			sent.add(m.Data, send)
		case "delaybridge_source_records_total":
			consumed.add(m.Data, receive)
		case "delaybridge_delivery_step_duration_seconds":
			name := messagingconv.ClientOperationDuration{}
			named = append(named, metricdata.Metrics{Name: name.Name(), Description: name.Description(), Unit: name.Unit(), Data: send.durations(m.Data)})
		}
	}
	if name := (messagingconv.ClientSentMessages{}); len(sent.points) > 0 {
		named = append(named, metricdata.Metrics{Name: name.Name(), Description: name.Description(), Unit: name.Unit(), Data: sent.data()})
	}
	if name := (messagingconv.ClientConsumedMessages{}); len(consumed.points) > 0 {
		named = append(named, metricdata.Metrics{Name: name.Name(), Description: name.Description(), Unit: name.Unit(), Data: consumed.data()})
	}
	return named
}

// labels turns labels into attributes.
type labels struct {
	key             attribute.Key // of the sink or source
	types           map[string]string
	operation, kind attribute.KeyValue
}

func (l labels) attributes(from attribute.Set) attribute.Set {
	attributes := []attribute.KeyValue{l.operation, l.kind}
	for _, label := range from.ToSlice() {
		value := label.Value.AsString()
		switch label.Key {
		case "sink", "source":
			attributes = append(attributes, l.key.String(value), semconv.MessagingSystemKey.String(systemOf(l.types[value])))
		case "topic":
			if value != "" {
				attributes = append(attributes, semconv.MessagingDestinationName(value))
			}
		case "reason":
			attributes = append(attributes, semconv.ErrorTypeKey.String(value))
		}
	}
	return attribute.NewSet(attributes...)
}

// sum adds up what has the same attributes.
type sum struct {
	points []metricdata.DataPoint[float64]
	at     map[attribute.Distinct]int
}

func (s *sum) add(from metricdata.Aggregation, l labels) {
	counts, _ := from.(metricdata.Sum[float64])
	for _, p := range counts.DataPoints {
		p.Attributes, p.Exemplars = l.attributes(p.Attributes), nil
		key := p.Attributes.Equivalent()
		if n, ok := s.at[key]; ok {
			s.points[n].Value += p.Value
			continue
		}
		if s.at == nil {
			s.at = make(map[attribute.Distinct]int)
		}
		s.at[key] = len(s.points)
		s.points = append(s.points, p)
	}
}

func (s *sum) data() metricdata.Sum[float64] {
	return metricdata.Sum[float64]{DataPoints: s.points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
}

// durations are those of the calls of sinks, which are one step of a delivery.
func (l labels) durations(from metricdata.Aggregation) metricdata.Aggregation {
	isCall := func(a attribute.Set) bool { step, _ := a.Value("step"); return step.AsString() == "deliver" }
	switch steps := from.(type) {
	case metricdata.Histogram[float64]:
		var calls []metricdata.HistogramDataPoint[float64]
		for _, p := range steps.DataPoints {
			if isCall(p.Attributes) {
				p.Attributes = l.attributes(p.Attributes)
				calls = append(calls, p)
			}
		}
		steps.DataPoints = calls
		return steps
	case metricdata.ExponentialHistogram[float64]:
		var calls []metricdata.ExponentialHistogramDataPoint[float64]
		for _, p := range steps.DataPoints {
			if isCall(p.Attributes) {
				p.Attributes = l.attributes(p.Attributes)
				calls = append(calls, p)
			}
		}
		steps.DataPoints = calls
		return steps
	}
	return from
}
