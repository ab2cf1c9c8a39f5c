package amqpdelay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// placeholder is the topic of a message whose routing key can't be one; the key
// is then an option.
const placeholder = "amqp"

const maxTopic = 255

// read makes the message for the bridge, if it is for that.
func (c *Channel) read(exchange, key string, msg *amqp.Publishing) (m client.Message, delayed bool, err error) {
	// A table has no order, and a repeat must be the same content.
	names := slices.Sorted(maps.Keys(msg.Headers))
	headers := make([]dialect.Header, len(names))
	for n, name := range names {
		headers[n] = dialect.Header{Name: name, Value: msg.Headers[name]}
	}
	m = client.Message{ID: msg.MessageId, Body: msg.Body, Priority: int(msg.Priority), Options: options(exchange, msg)}
	rest, delayed, err := c.rules.Read(&m, headers)
	if err != nil || !delayed {
		return m, false, err
	}
	if msg.MessageId != "" && m.ID != msg.MessageId {
		return m, false, client.Invalid("delaybridge-id", "differs from MessageId")
	}
	if m.Topic == "" {
		setRoutingKey(&m, key)
	}
	if m.Body == nil {
		m.Body = []byte{} // AMQP knows no null body
	}
	for _, n := range rest {
		value, err := c.text(headers[n])
		if err != nil {
			return m, false, err
		}
		m.Headers = append(m.Headers, client.Header{Name: headers[n].Name, Value: value})
	}
	return m, true, nil
}

// setRoutingKey makes the key the topic, as far as it can be one.
func setRoutingKey(m *client.Message, key string) {
	m.Topic = key
	if key == "" || len(key) > maxTopic || strings.ContainsFunc(key, notInTopic) {
		m.Topic, m.Options["routing_key"] = placeholder, key
	}
}

func notInTopic(r rune) bool { return r <= ' ' || r > '~' }

// options are the properties as the AMQP sink takes them. The exchange is always
// said, as the sink may have another.
func options(exchange string, msg *amqp.Publishing) map[string]string {
	o := map[string]string{"exchange": exchange}
	for name, value := range map[string]string{
		"content_type": msg.ContentType, "content_encoding": msg.ContentEncoding, "correlation_id": msg.CorrelationId,
		"reply_to": msg.ReplyTo, "type": msg.Type, "app_id": msg.AppId, "expiration_ms": msg.Expiration,
	} {
		if value != "" {
			o[name] = value
		}
	}
	return o
}

// text returns a header's value as the sink will send it; nil is void.
func (c *Channel) text(h dialect.Header) ([]byte, error) {
	switch v := h.Value.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case []byte:
		return append([]byte{}, v...), nil // nil bytes are not void
	}
	if !c.asText {
		return nil, client.Invalid("headers", "have the name %q with a %T: headers of a message with a delay must be text; or set HeadersAsText", h.Name, h.Value)
	}
	switch v := h.Value.(type) {
	case time.Time:
		return v.UTC().AppendFormat(nil, time.RFC3339), nil
	case float32:
		return strconv.AppendFloat(nil, float64(v), 'g', -1, 32), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	case bool, int, int8, int16, int32, int64, uint8, uint16, uint32:
		return fmt.Append(nil, v), nil
	}
	return nil, client.Invalid("headers", "have the name %q with a %T, which can't be converted to text", h.Name, h.Value)
}
