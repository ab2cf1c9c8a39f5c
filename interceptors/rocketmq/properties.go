package rocketmqsource

import (
	"bytes"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// The properties that a message has besides those of its user.
const (
	propertyKeys       = "KEYS"
	propertyTags       = "TAGS"
	propertySharding   = "__SHARDINGKEY" // of the Java and the 5.x clients
	propertyShardingGo = "SHARDING_KEY"  // of the Go client
	propertyRealTopic  = "REAL_TOPIC"    // is left by a broker that has held the message back
)

// properties are those of one message, sorted by what becomes of them.
type properties struct {
	keys, tags, sharding []byte
	waited               bool // the broker itself has done what was wished
	headers              []core.Header
}

// internal reports whether a property belongs to clients and brokers, and says
// nothing once the message has been read.
func internal(name []byte) bool {
	switch string(name) {
	case "WAIT", "RETRY_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET",
		"BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME",
		"MSG_REGION", "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME",
		"INNER_NUM", "INNER_BASE", "DUP_INFO", "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRAN_PREPARED_QUEUE_OFFSET",
		"__transactionId__", "TRANSACTION_CHECK_TIMES", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT",
		"TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME",
		"PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET",
		"TRACE_CONTEXT", "__BORNHOST", "BORN_TIMESTAMP", "__CRC32#", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID":
		return true
	}
	return strings.HasPrefix(string(name), "__RMQ.")
}

// delays reports whether a broker may act on a property of this name by holding
// the message back, or writes it when it does.
func delays(name string) bool { return name == "DELAY" || strings.HasPrefix(name, "TIMER_") }

// wish reports whether a property is a producer's wish for a delay, rather than a
// mark that a broker has left.
func wish(h core.Header) bool {
	switch h.Name {
	case "DELAY":
		return string(h.Value) != "0" // a message without a delay
	case "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC":
		return true
	}
	return false
}

// sortProperties appends the user's to headers, which it returns too; of a name
// that appears twice the last counts, and one without a value is none, as for
// every consumer.
func sortProperties(raw []byte, headers []core.Header, known source.Names) (p properties, grown []core.Header) {
	start, passed := len(headers), false
	for len(raw) > 0 {
		var name, value []byte
		name, value, raw = nextProperty(raw)
		if len(name) == 0 || len(value) == 0 {
			continue
		}
		switch string(name) {
		case propertyKeys:
			p.keys = value
		case propertyTags:
			p.tags = value
		case propertySharding, propertyShardingGo:
			p.sharding = value
		case propertyRealTopic:
			passed = true
		default:
			if !internal(name) {
				headers = setHeader(headers, start, known.Intern(name), value)
			}
		}
	}
	p.waited = passed && slices.ContainsFunc(headers[start:], wish)
	p.headers = withoutDelays(headers[start:], !passed)
	return p, headers[:start+len(p.headers)]
}

func setHeader(headers []core.Header, start int, name string, value []byte) []core.Header {
	for n := start; n < len(headers); n++ {
		if headers[n].Name == name {
			headers[n].Value = value
			return headers
		}
	}
	return append(headers, core.Header{Name: name, Value: value})
}

// withoutDelays leaves out what brokers have written, and wishes unless they are
// open.
func withoutDelays(headers []core.Header, open bool) []core.Header {
	kept := headers[:0]
	for _, h := range headers {
		if !delays(h.Name) || open && wish(h) {
			kept = append(kept, h)
		}
	}
	return kept[:len(kept):len(kept)]
}

// forgetDelivery takes off keys the ID that the sink has put there, if the message
// was delivered before: they would grow with each hop.
func (p *properties) forgetDelivery(hop int) {
	for _, h := range p.headers {
		if keys := bytes.TrimPrefix(p.keys, h.Value); hop > 0 && core.DeliveryHeader(h.Name) == core.HeaderID && (len(keys) == 0 || keys[0] == ' ') {
			p.keys = bytes.TrimPrefix(keys, []byte(" "))
		}
	}
}
