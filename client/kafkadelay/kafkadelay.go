// Package kafkadelay lets code that writes to Kafka with kafka-go delay single
// messages by a header.
//
//	w := kafkadelay.Wrap(writer, bridge, kafkadelay.Options{Sink: "kafka"})
//	err := w.WriteMessages(ctx, kafka.Message{Topic: "reminders", Value: body,
//		Headers: []kafka.Header{{Key: "delaybridge-delay", Value: []byte("10m")}}})
//
// The headers are those of the bridge: delaybridge-delay or
// delaybridge-deliver-at, and -id, -sink, -topic, -key, -ttl, -expires-at,
// -priority. They are taken off. Topic, key, value and all other headers arrive
// as they are; a nil key, value or header value as null.
//
// A keyed message that was delayed comes to the partition that Java's producer
// would choose. Messages that the Writer sends do only if its Balancer is a
// kafka.Murmur2Balancer. The Time of a delayed message is when it is delivered,
// and the Writer's Completion, Async, limits and statistics are not for it.
package kafkadelay

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/delayheaders"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// Options say where delayed messages go.
type Options struct {
	// Sink is the bridge's name for the Kafka that the Writer writes to. It may be
	// empty where the bridge has one sink only.
	Sink string
}

// Writer is a kafka.Writer whose WriteMessages heeds delays. All else is the
// Writer's own, Close too.
type Writer struct {
	*kafka.Writer
	bridge *client.Client
	rules  *delayheaders.Rules
}

// Wrap returns a Writer that has messages with a delay go to the bridge, and all
// others to w. It opens nothing; closing it closes w and not the client.
func Wrap(w *kafka.Writer, bridge *client.Client, o Options) *Writer {
	return &Writer{Writer: w, bridge: bridge, rules: delayheaders.New(o.Sink)}
}

// WriteMessages writes messages as the kafka.Writer does, but for those with a
// delay, which are given to the bridge; it returns when both have answered.
// Without one with a delay it is the Writer's call as it stands. Else an error
// is a kafka.WriteErrors with a slot for each message; those of delayed ones are
// *client.Error. A repeat of a delayed message whose outcome is unknown may
// deliver it twice, unless it has a delaybridge-id.
func (w *Writer) WriteMessages(ctx context.Context, messages ...kafka.Message) error {
	if !w.concerns(messages) {
		return w.Writer.WriteMessages(ctx, messages...)
	}
	s := w.sort(messages)
	if len(s.direct) > 0 {
		s.note(s.directAt, w.Writer.WriteMessages(ctx, s.direct...))
	}
	_, err := w.bridge.PublishBatch(ctx, s.delayed)
	s.note(s.delayedAt, err)
	if s.errs.Count() > 0 {
		return s.errs
	}
	return nil
}

func (w *Writer) concerns(messages []kafka.Message) bool {
	for n := range messages {
		for _, h := range messages[n].Headers {
			if w.rules.Concern(h.Key) {
				return true
			}
		}
	}
	return false
}

// sorted is the messages of one call by where they go, each in order.
type sorted struct {
	errs                kafka.WriteErrors
	direct              []kafka.Message
	delayed             []client.Message
	directAt, delayedAt []int // their places in the call
}

func (w *Writer) sort(messages []kafka.Message) *sorted {
	s := &sorted{errs: make(kafka.WriteErrors, len(messages))}
	for n := range messages {
		m, delayed, err := w.read(&messages[n])
		switch {
		case err != nil:
			s.errs[n] = err
		case delayed:
			s.delayed, s.delayedAt = append(s.delayed, m), append(s.delayedAt, n)
		default:
			s.direct, s.directAt = append(s.direct, messages[n]), append(s.directAt, n)
		}
	}
	return s
}

// note puts the error of a call with some of the messages into their slots.
func (s *sorted) note(places []int, err error) {
	var each []error
	if e, ok := errors.AsType[kafka.WriteErrors](err); ok {
		each = e
	} else if e, ok := errors.AsType[client.BatchError](err); ok {
		each = e
	}
	for n, place := range places {
		s.errs[place] = err
		if each != nil {
			s.errs[place] = each[n]
		}
	}
}

var errTwoTopics = errors.New("kafkadelay: Topic is set for both the Writer and the message")

// read makes the message for the bridge, if it is for that.
func (w *Writer) read(from *kafka.Message) (m client.Message, delayed bool, err error) {
	headers := make([]dialect.Header, len(from.Headers))
	for n, h := range from.Headers {
		headers[n] = dialect.Header{Name: h.Key, Value: h.Value}
	}
	m = client.Message{Topic: from.Topic, Key: from.Key, Body: from.Value}
	if m.Topic == "" {
		m.Topic = w.Topic
	}
	rest, delayed, err := w.rules.Read(&m, headers)
	if err != nil || !delayed {
		return m, false, err
	}
	if w.Topic != "" && from.Topic != "" {
		return m, false, errTwoTopics
	}
	for _, n := range rest {
		m.Headers = append(m.Headers, client.Header{Name: from.Headers[n].Key, Value: from.Headers[n].Value})
	}
	return m, true, nil
}
