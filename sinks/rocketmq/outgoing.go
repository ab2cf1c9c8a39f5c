package rocketmq

import (
	"cmp"
	"encoding/binary"

	"github.com/delaybridge/delaybridge/core"
)

// The properties that we write besides headers.
const (
	propertyKeys = "KEYS"
	propertyTags = "TAGS"
	// propertySharding is the sharding key of the Java and the 5.x clients;
	// the Go client reads propertyShardingGo.
	propertySharding   = "__SHARDINGKEY"
	propertyShardingGo = "SHARDING_KEY"
)

// outgoing is a message in the form that RocketMQ takes.
type outgoing struct {
	index      int // in the batch
	source     *core.Message
	properties []byte // on the wire: name, 1, value, 2, and so on
}

func newOutgoing(index int, m *core.Message) *outgoing {
	o := &outgoing{index: index, source: m, properties: make([]byte, 0, propertiesHint(m))}
	again := isAgain(m.Headers)
	for _, h := range m.DeliveredHeaders() {
		if !isLeftOut(h.Name, again) {
			o.begin(h.Name)
			o.properties = append(append(o.properties, h.Value...), propertyEnd)
		}
	}
	keys := m.ID
	if more := m.Options[optionKeys]; more != "" {
		keys += " " + more
	}
	o.set(propertyKeys, keys)
	if tags := m.Options[optionTags]; tags != "" {
		o.set(propertyTags, tags)
	}
	if key := shardingKey(m); key != "" {
		o.set(propertySharding, key)
		o.set(propertyShardingGo, key)
	}
	return o
}

// propertiesHint is about how long the properties will be.
func propertiesHint(m *core.Message) int {
	total := 160 + 2*len(m.ID) + 2*len(m.Key)
	for _, h := range m.Headers {
		total += len(h.Name) + len(h.Value) + 2
	}
	return total
}

const (
	valueBegin  = 1
	propertyEnd = 2
)

func (o *outgoing) begin(name string) {
	o.properties = append(append(o.properties, name...), valueBegin)
}

func (o *outgoing) set(name, value string) {
	o.begin(name)
	o.properties = append(append(o.properties, value...), propertyEnd)
}

// batchOverhead is what one message adds to a batch besides body and properties.
const batchOverhead = 22

func (o *outgoing) bytes() int { return batchOverhead + len(o.source.Body) + len(o.properties) }

// onWire makes the body of a batch request of messages, also if it is but one:
// the broker then gives it the same treatment, and takes an empty body, which
// 5.x fails on otherwise. It is made here and not by the client library since
// that goes by way of maps and copies each message four times.
func onWire(messages []*outgoing) []byte {
	total := 0
	for _, o := range messages {
		total += o.bytes()
	}
	batch := make([]byte, 0, total)
	for _, o := range messages {
		batch = o.append(batch)
	}
	return batch
}

// append adds the message to a batch: total length, magic, checksum and flags,
// which are all zero, body and properties with their lengths.
func (o *outgoing) append(batch []byte) []byte {
	batch = binary.BigEndian.AppendUint32(batch, uint32(o.bytes()))
	batch = append(batch, make([]byte, 12)...)
	batch = binary.BigEndian.AppendUint32(batch, uint32(len(o.source.Body)))
	batch = append(batch, o.source.Body...)
	batch = binary.BigEndian.AppendUint16(batch, uint16(len(o.properties)))
	return append(batch, o.properties...)
}

// shardingKey is the option or else the message's key.
func shardingKey(m *core.Message) string { return cmp.Or(m.Options[optionShardingKey], string(m.Key)) }

// queueKey is what chooses the queue; ok is false if any will do.
func queueKey(m *core.Message) (key string, ok bool) {
	if m.Key != nil {
		return string(m.Key), true
	}
	key, ok = m.Options[optionShardingKey]
	return key, ok
}
