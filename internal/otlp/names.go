package otlp

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/delaybridge/delaybridge/core"
)

// Every name of a span and of an attribute is in this file, or in the conventions of
// OpenTelemetry, https://opentelemetry.io/docs/specs/semconv/messaging. docs/tracing.md
// has them in a table.

// scope is who has made the spans and metrics.
const scope = "github.com/delaybridge/delaybridge"

// The operations that spans are about.
const (
	opAccept  = "accept"
	opPark    = "park"
	opDeliver = "deliver"
	opSend    = "send"
	opReceive = "receive" // of metrics only
)

const (
	keyInput      = attribute.Key("delaybridge.input")
	keySink       = attribute.Key("delaybridge.sink")
	keySource     = attribute.Key("delaybridge.source")
	keyBucket     = attribute.Key("delaybridge.bucket")
	keyDurability = attribute.Key("delaybridge.durability")
	keyDeliverAt  = attribute.Key("delaybridge.deliver_at")
	keyLateness   = attribute.Key("delaybridge.lateness_ms")
	keyAttempt    = attribute.Key("delaybridge.attempt")
	keyState      = attribute.Key("delaybridge.state")
	keyDuplicates = attribute.Key("delaybridge.duplicates")
	keyRefused    = attribute.Key("delaybridge.refused")
)

// own is the messaging system that producers send to.
const own = "delaybridge"

// systemOf is the messaging system behind a sink or source of a type.
func systemOf(typ string) string {
	switch typ {
	case "amqp":
		return semconv.MessagingSystemRabbitMQ.Value.AsString()
	case "":
		return "_OTHER"
	}
	return typ
}

func spanName(operation, topic string) string { return strings.TrimSuffix(operation+" "+topic, " ") }

// ofMessage are the attributes of one message that is due at a time.
func ofMessage(m *core.Message, due time.Time) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 16)
	attributes = append(attributes, semconv.MessagingMessageID(m.ID), semconv.MessagingMessageBodySize(len(m.Body)), keySink.String(m.Sink))
	if !due.IsZero() {
		attributes = append(attributes, keyDeliverAt.String(due.UTC().Format(core.TimeFormat)))
	}
	return attributes
}
