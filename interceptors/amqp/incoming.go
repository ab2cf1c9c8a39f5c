package amqpsource

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// incoming is a delivery on its way to become a message.
type incoming struct {
	*queueReader
	*amqp091.Delivery
	m       *core.Message
	headers []dialect.Header // in the order of their names, as a table has none
	// byMessageID says that the ID is made of what is not the bridge's. If the broker
	// says that it delivers such a message for the first time, that is certain.
	byMessageID bool
}

// item makes a message of d, or a refusal. It is the same each time that d is
// delivered.
func (s *queueReader) item(d *amqp091.Delivery) source.Item {
	in := &incoming{queueReader: s, Delivery: d, m: &core.Message{Body: d.Body, Priority: int(min(d.Priority, core.MaxPriority))}}
	if d.Body == nil {
		in.m.Body = []byte{} // AMQP has no null
	}
	err := in.read()
	return source.Item{Message: in.m, Err: err, New: in.byMessageID && !d.Redelivered}
}

func (in *incoming) read() error {
	if isUnreadable(in.Delivery) {
		return core.Invalidf("headers", "can't be read: they nest too deep, are too many, or have an unknown type")
	}
	in.headers = make([]dialect.Header, 0, len(in.Headers))
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if !isCount(name) {
			in.headers = append(in.headers, dialect.Header{Name: name, Value: in.readable(name)})
		}
	}
	from := source.Source{Topic: in.topic(in.RoutingKey), Sent: in.sent()}
	rest, err := in.rules.Apply(in.m, from, in.headers)
	if in.m.ID == "" {
		in.m.ID = in.messageID()
		in.byMessageID = in.m.ID != ""
	}
	if err != nil {
		return err
	}
	if in.settings.requireMessageID && in.m.ID == "" {
		return core.Invalidf("message_id", "is missing, and the source is set to require_message_id")
	}
	if in.UserId != "" && !in.settings.dropUserID {
		return core.Invalidf("user_id", "can't be passed on, because the broker accepts it only from that user; set drop_user_id of the source to leave it out")
	}
	kinds, err := in.setHeaders(rest)
	if err != nil {
		return err
	}
	in.setProperties(from, kinds)
	if in.m.Hop == 0 { // else the timestamp is mostly that of what was delivered
		in.rules.CountFrom(in.m, from.Sent)
	}
	return nil
}

// readable is the value of a header, and that of a number that only AMQP has a type for
// as text where it may say when the message is due.
func (in *incoming) readable(name string) any {
	value := in.Headers[name]
	if d, ok := value.(amqp091.Decimal); ok && in.rules.Knows(name) {
		return decimalText(d)
	}
	return value
}

// isCount tells the headers in which a broker counts deliveries. They are not
// the message's own, and not the same each time.
func isCount(name string) bool { return name == "x-delivery-count" || name == "x-acquired-count" }

// sent is the end of the second in which the message was sent, so that a delay
// from there is not too short; zero is unknown.
func (in *incoming) sent() time.Time {
	if in.Timestamp.Unix() <= 0 {
		return time.Time{}
	}
	return in.Timestamp.Add(time.Second)
}

// messageID makes of the property an ID, and another for each hop. With neither
// that nor a header there is nothing by which a message that the broker delivers
// again is known; but of a consumer that publishes again, the headers that we have
// added tell which delivery it had.
func (in *incoming) messageID() string {
	switch {
	case in.m.Hop > 0 && in.MessageId != "":
		return in.ids.of(in.MessageId + "~" + strconv.Itoa(in.m.Hop))
	case in.m.Hop > 0:
		return in.ids.of(fmt.Sprintf("%q%v%q", in.RoutingKey, in.headers, in.Body))
	case in.MessageId == "":
		return ""
	}
	return in.ids.of(in.MessageId)
}

// setHeaders sets the message's own headers and returns the letters of their
// types.
func (in *incoming) setHeaders(rest []int) (kinds string, err error) {
	var letters strings.Builder
	in.m.Headers = make([]core.Header, 0, len(rest))
	for _, at := range rest {
		h := in.headers[at]
		kind, text, err := fieldText(h.Value)
		if err != nil {
			return "", core.Invalidf("headers", "have %q, which %v", core.Shorten(h.Name, 64), err)
		}
		in.m.Headers = append(in.m.Headers, core.Header{Name: h.Name, Value: text})
		letters.WriteString(kind)
	}
	return strings.TrimRight(letters.String(), "S"), nil
}

// setProperties keeps what else came with the message, as the settings say.
func (in *incoming) setProperties(from source.Source, kinds string) {
	switch in.settings.properties {
	case propertiesAMQP:
		in.m.Options = make(map[string]string, 8)
		in.setOptions(from, kinds)
	case propertiesHeaders:
		for _, p := range in.texts() {
			if p.text != "" {
				in.m.Headers = append(in.m.Headers, core.Header{Name: strings.ReplaceAll(p.name, "_", "-"), Value: []byte(p.text)})
			}
		}
	}
}

type property struct{ name, text string }

// texts are the properties that are text, by the names of an AMQP sink's
// options.
func (in *incoming) texts() [7]property {
	return [...]property{{"content_type", in.ContentType}, {"content_encoding", in.ContentEncoding}, {"type", in.Type},
		{"app_id", in.AppId}, {"correlation_id", in.CorrelationId}, {"reply_to", in.ReplyTo}, {"expiration_ms", in.Expiration}}
}

// setOptions is for an AMQP sink: it makes the message as it came.
func (in *incoming) setOptions(from source.Source, kinds string) {
	options := in.m.Options
	for _, p := range in.texts() {
		if p.text != "" {
			options[p.name] = p.text
		}
	}
	options["message_id"] = in.MessageId
	if in.Priority > core.MaxPriority {
		options["priority"] = strconv.Itoa(int(in.Priority))
	}
	if !in.Timestamp.IsZero() {
		options[core.OptionTimestamp] = strconv.FormatInt(in.Timestamp.Unix(), 10)
	}
	if kinds != "" {
		options["header_types"] = kinds
	}
	if left, ok := in.xDelay(); ok && in.settings.negate {
		options[core.OptionXDelay] = left
	}
	if in.exchange == nil {
		return
	}
	options["exchange"] = in.exchange.to
	if in.m.Topic == from.Topic && from.Topic != in.RoutingKey {
		options["routing_key"] = in.RoutingKey
	}
}

// xDelay returns what the delayed message plug-in would leave in the header of that
// name, as an AMQP sink's option x_delay wants it: the very number negated, or what
// stood there if it was not above zero. Other than there, text stays text, and a
// fraction is kept. The header has been read, so that it is a number.
func (in *incoming) xDelay() (left string, ok bool) {
	for _, h := range in.headers {
		if !in.rules.Knows(h.Name) || !strings.EqualFold(strings.ReplaceAll(h.Name, "_", "-"), "x-delay") {
			continue
		}
		kind, number, err := fieldText(in.Headers[h.Name])
		if err != nil {
			return "", false
		}
		left = string(number)
		if in.m.Delay > 0 {
			left = "-" + left
		}
		if strings.ContainsAny(kind, "SxfdD") {
			left = kind + left
		}
		return left, true
	}
	return "", false
}
