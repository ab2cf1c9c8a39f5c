package rocketmqdelay

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// part is one message of what is sent, which may be a batch.
type part struct {
	flag       int32
	body       []byte
	properties map[string]string
}

// The layout of a message in a batch: its length, 8 bytes that are not used,
// flag, length of the body, body, length of the properties, properties.
const (
	flagAt     = 12
	bodySizeAt = 16
	bodyAt     = 20
)

// partsOf takes a batch apart, which the library has encoded before interceptors
// see it.
func partsOf(m *primitive.Message) (parts []part) {
	if !m.Batch {
		return []part{{m.Flag, m.Body, m.GetProperties()}}
	}
	for rest := m.Body; len(rest) > 0; {
		if len(rest) < bodyAt {
			return nil
		}
		size, bodySize := int(binary.BigEndian.Uint32(rest)), int(binary.BigEndian.Uint32(rest[bodySizeAt:]))
		if propertiesAt := bodyAt + bodySize + 2; size > len(rest) || size < propertiesAt {
			return nil
		}
		one := rest[:size]
		rest = rest[size:]
		parts = append(parts, part{
			flag: int32(binary.BigEndian.Uint32(one[flagAt:])), body: one[bodyAt : bodyAt+bodySize],
			properties: propertiesOf(one[bodyAt+bodySize+2:]),
		})
	}
	return parts
}

func propertiesOf(text []byte) map[string]string {
	var m primitive.Message
	m.UnmarshalProperties(text)
	return m.GetProperties()
}

// read makes messages for the bridge of the parts that are for that.
func (i *interceptor) read(topic string, parts []part) (delayed []client.Message, err error) {
	for n := range parts {
		if !i.concerns(&parts[n]) {
			continue
		}
		m, forBridge, err := i.readPart(topic, &parts[n])
		if err != nil {
			return nil, err
		}
		if forBridge {
			delayed = append(delayed, m)
		}
	}
	return delayed, nil
}

func (i *interceptor) concerns(p *part) bool {
	for name := range p.properties {
		if i.rules.Concern(name) {
			return true
		}
	}
	return false
}

// Properties of which the bridge's sink makes its own.
const (
	shardingKeyJava = "__SHARDINGKEY" // as other clients write it
	optionTags      = "tags"
	optionKeys      = "keys"
	optionSharding  = "sharding_key"
)

func (i *interceptor) readPart(topic string, p *part) (m client.Message, delayed bool, err error) {
	if i.namespace != "" {
		topic = strings.TrimPrefix(topic, i.namespace+"%")
	}
	m = client.Message{Topic: topic, Body: p.body, Options: map[string]string{}}
	if m.Body == nil {
		m.Body = []byte{} // RocketMQ knows no null body
	}
	// Properties have no order, and a repeat must be the same content.
	var headers []dialect.Header
	for _, name := range slices.Sorted(maps.Keys(p.properties)) {
		if !setProperty(&m, name, p.properties[name]) {
			headers = append(headers, dialect.Header{Name: name, Value: p.properties[name]})
		}
	}
	rest, delayed, err := i.rules.Read(&m, headers)
	if err != nil || !delayed {
		return m, false, err
	}
	if p.flag != 0 {
		return m, false, client.Invalid("flag", "is not supported for a message with a delay")
	}
	for _, n := range rest {
		m.Headers = append(m.Headers, client.Header{Name: headers[n].Name, Value: []byte(p.properties[headers[n].Name])})
	}
	return m, true, nil
}

// setProperty takes a property that is RocketMQ's own, as far as it can be kept.
func setProperty(m *client.Message, name, value string) bool {
	switch name {
	case primitive.PropertyTags:
		m.Options[optionTags] = value
	case primitive.PropertyKeys:
		m.Options[optionKeys] = value
	case primitive.PropertyShardingKey, shardingKeyJava:
		m.Key, m.Options[optionSharding] = []byte(value), value
	case primitive.PropertyUniqueClientMessageIdKeyIndex, primitive.PropertyWaitStoreMsgOk:
		// The sink's producer has its own.
	default:
		return false
	}
	return true
}
