package amqp

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// The options of a message.
const (
	optionExchange        = "exchange"
	optionRoutingKey      = "routing_key"
	optionContentType     = "content_type"
	optionContentEncoding = "content_encoding"
	optionCorrelationID   = "correlation_id"
	optionReplyTo         = "reply_to"
	optionType            = "type"
	optionAppID           = "app_id"
	optionExpiration      = "expiration_ms"
	optionMessageID       = "message_id"
	optionPriority        = "priority"
	optionTimestamp       = core.OptionTimestamp
	optionXDelay          = core.OptionXDelay
	optionHeaderTypes     = "header_types"
)

const (
	// maxProperties bounds the headers and other properties together: they must
	// fit into one frame, or the broker closes the connection.
	maxProperties = amqp.FrameSize - frameOverhead
	frameOverhead = 64
	// headerOverhead is the lengths of name and value, the type, and by how much
	// a number can be longer than its text.
	headerOverhead = 14
	// maxExpiration is the largest time to live that RabbitMQ takes.
	maxExpiration = 1<<32 - 1
	// directReplyTo is a name that closes the channel of who may not use it.
	directReplyTo = "amq.rabbitmq.reply-to"
	headerXDelay  = "x-delay"
)

// outgoing is a message as it is published.
type outgoing struct {
	id            string // of the message; MessageId may be another
	exchange, key string
	amqp091.Publishing
	xDelay     any    // value of the header of that name; nil: there is none
	types      string // of the headers, see optionHeaderTypes
	properties int    // their encoded size, headers included
}

// outgoing translates m, or returns an *core.InvalidError that says why the
// broker can't carry it.
func (s *settings) outgoing(m *core.Message) (*outgoing, error) {
	o := &outgoing{id: m.ID, exchange: s.exchange, key: m.Topic}
	o.MessageId, o.DeliveryMode, o.Body = m.ID, s.deliveryMode, m.Body
	o.Priority = uint8(min(max(m.Priority, 0), core.MaxPriority))
	if len(m.Body) > s.maxMessageSize {
		return nil, tooLarge("body", "is larger than %d bytes, the broker's limit", s.maxMessageSize)
	}
	if err := amqp.CheckShort("topic", m.Topic); err != nil {
		return nil, err
	}
	if err := amqp.CheckShort("id", m.ID); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		if err := o.setOption(name, m.Options[name]); err != nil {
			return nil, err
		}
	}
	if err := o.setHeaders(m); err != nil {
		return nil, err
	}
	if o.properties > maxProperties {
		return nil, tooLarge("headers", "are larger than %d bytes together with the other properties", maxProperties)
	}
	return o, nil
}

func tooLarge(field, format string, args ...any) *core.InvalidError {
	err := core.Invalidf(field, format, args...)
	err.TooLarge = true
	return err
}

func (o *outgoing) setOption(name, value string) error {
	if strings.HasPrefix(name, core.OptionPrefix) {
		return nil
	}
	field := "options." + name
	if err := amqp.CheckShort(field, value); err != nil {
		return err
	}
	o.properties += len(value) + 1
	switch name {
	case optionExchange:
		o.exchange = value
	case optionRoutingKey:
		o.key = value
	case optionContentType:
		o.ContentType = value
	case optionContentEncoding:
		o.ContentEncoding = value
	case optionCorrelationID:
		o.CorrelationId = value
	case optionType:
		o.Type = value
	case optionAppID:
		o.AppId = value
	case optionReplyTo:
		if strings.HasPrefix(value, directReplyTo) {
			return core.Invalidf(field, "can't be %s", directReplyTo)
		}
		o.ReplyTo = value
	case optionMessageID:
		o.MessageId = value
	case optionHeaderTypes:
		o.types = value
	case optionXDelay:
		return o.setXDelay(field, value)
	default:
		return o.setNumber(name, field, value)
	}
	return nil
}

// setNumber sets what an option gives as a decimal number.
func (o *outgoing) setNumber(name, field, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch name {
	case optionExpiration:
		if err != nil || n < 0 || n > maxExpiration {
			return core.Invalidf(field, "must be 0 to %d milliseconds", maxExpiration)
		}
		o.Expiration = strconv.FormatInt(n, 10)
	case optionPriority:
		if err != nil || n < 0 || n > math.MaxUint8 {
			return core.Invalidf(field, "must be 0 to %d", math.MaxUint8)
		}
		o.Priority = uint8(n)
	case optionTimestamp:
		if err != nil {
			return core.Invalidf(field, "must be seconds since 1970")
		}
		o.Timestamp = time.Unix(n, 0)
	default:
		return core.Invalidf(field, "is not an option of an AMQP sink")
	}
	return nil
}

// setXDelay: the delayed message plug-in writes 32 bits, and so does this with a whole
// number while they suffice. Another number has the letter of its type before it.
func (o *outgoing) setXDelay(field, text string) error {
	o.properties += len(headerXDelay) + headerOverhead
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && n > 0 || text == "" || err != nil && !isNotAbove(text[1:]):
		return core.Invalidf(field, "must be zero or a negative number: a whole number, or one of the letters SxfdD and a number")
	case err == nil && n >= math.MinInt32:
		o.xDelay = int32(n)
	case err == nil:
		o.xDelay = n
	case !strings.ContainsAny(text[:1], "SxfdD"):
		return core.Invalidf(field, "must begin with one of the letters SxfdD")
	default:
		if o.xDelay, err = fieldOf(text[:1], []byte(text[1:])); err != nil {
			return core.Invalidf(field, "%v", err)
		}
	}
	return nil
}

// isNotAbove reports whether text is a number that is not above zero.
func isNotAbove(text string) bool {
	number, power, _ := strings.Cut(text, "e")
	digits, negative := strings.CutPrefix(number, "-")
	isNumber := digits != "" && strings.Trim(digits, "0123456789.") == "" && strings.Trim(power, "+-0123456789") == ""
	return isNumber && (negative || strings.Trim(digits, "0.") == "")
}

func (o *outgoing) setHeaders(m *core.Message) error {
	if len(o.types) > len(m.Headers) {
		return core.Invalidf("options."+optionHeaderTypes, "are more than there are headers")
	}
	headers := m.DeliveredHeaders()
	o.Headers = make(amqp091.Table, len(headers)+1)
	if o.xDelay != nil {
		o.Headers[headerXDelay] = o.xDelay
	}
	o.properties += len(m.ID)
	for n, h := range headers {
		if isDelay(h.Name) {
			continue
		}
		if err := checkHeader(o.Headers, h); err != nil {
			return err
		}
		value, err := o.headerValue(n, h.Value)
		if err != nil {
			return err
		}
		o.properties += len(h.Name) + len(h.Value) + headerOverhead
		o.Headers[h.Name] = value
	}
	return nil
}

// headerValue is the value of header n: a long string unless its type is given.
func (o *outgoing) headerValue(n int, text []byte) (any, error) {
	switch {
	case text == nil:
		return nil, nil
	case n >= len(o.types):
		return string(text), nil
	}
	value, err := fieldOf(o.types[n:n+1], text)
	if err != nil {
		return nil, core.Invalidf("options."+optionHeaderTypes, "don't fit header %d: %v", n, err)
	}
	return value, nil
}

func checkHeader(before amqp091.Table, h core.Header) error {
	if err := amqp.CheckShort("headers", h.Name); err != nil {
		return err
	}
	if _, repeated := before[h.Name]; repeated {
		return core.Invalidf("headers", "have the name %q twice, which AMQP can't carry", core.Shorten(h.Name, 64))
	}
	if h.Name == "CC" || h.Name == "BCC" {
		return core.Invalidf("headers", "have the name %s, which the broker interprets as more routing keys", h.Name)
	}
	return nil
}

// isDelay tells the headers that brokers take as a request to delay: those of
// RabbitMQ's delayed message plug-in and of AMQP 1.0.
func isDelay(name string) bool {
	switch strings.ToLower(name) {
	case headerXDelay, "x-opt-delivery-delay", "x-opt-delivery-time":
		return true
	}
	return false
}
