package rocketmq

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

// The options of a message.
const (
	optionTags        = "tags"         // one tag, by which consumers select
	optionKeys        = "keys"         // more keys for the brokers' index, after the ID; separated by spaces
	optionShardingKey = "sharding_key" // instead of the message's key
)

const (
	// maxPropertyBytes is what fits the 16 bits in which brokers keep the
	// length, less room for what client and broker add themselves.
	maxPropertyBytes = 1<<15 - 1 - 1024
	// bodyRoom is how much smaller than a message its body must be: brokers of
	// 4.x count properties, topic and their own header, those of 5.x do not.
	bodyRoom = 34 << 10
)

// reservedTopics are the cluster's own: a message there would be held back,
// dropped, or taken for a command.
var reservedTopics = map[string]bool{
	"TBW102": true, "SCHEDULE_TOPIC_XXXX": true, "TRANS_CHECK_MAX_TIME_TOPIC": true,
	"SELF_TEST_TOPIC": true, "OFFSET_MOVED_EVENT": true, "CHECKPOINT_TOPIC": true,
}

// givenProperties are the names of what producers give us in another way.
var givenProperties = setOf(propertyKeys, propertyTags, propertySharding, propertyShardingGo)

// reservedProperties are the other names that client or broker give a meaning.
var reservedProperties = setOf(
	"WAIT", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET",
	"BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME",
	"MSG_REGION", "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME",
	"INNER_NUM", "INNER_BASE", "DUP_INFO", "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRAN_PREPARED_QUEUE_OFFSET",
	"__transactionId__", "TRANSACTION_CHECK_TIMES", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT",
	"TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME",
	"PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET",
	"TRACE_CONTEXT", "__BORNHOST", "BORN_TIMESTAMP", "__CRC32#", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// isScheduling reports whether a property of this name makes the broker hold the
// message back once more, or is left by a broker that has done so. Check refuses
// such headers, and none is delivered.
func isScheduling(name string) bool {
	return name == "DELAY" || name == "__STARTDELIVERTIME" || strings.HasPrefix(name, "TIMER_")
}

func isReserved(name string) bool {
	return givenProperties[name] || reservedProperties[name] || strings.HasPrefix(name, "__RMQ.")
}

// isLeftOut reports whether a header is not delivered: one by which the broker would
// delay, and, of a message that was delivered before and published again, those
// that client and broker have added to it. They add them again.
func isLeftOut(name string, again bool) bool {
	return isScheduling(name) || again && isReserved(name) && !givenProperties[name]
}

// isAgain reports whether a message was delivered before, as core.Message.Hop does
// until it is parked.
func isAgain(headers []core.Header) bool {
	last := len(headers) - 1
	return last >= 0 && headers[last].Name == core.HeaderHop
}

// Check refuses what RocketMQ can't carry: topics that are reserved or have
// other characters than A-Z a-z 0-9 _ - | %, options it does not know, messages
// and headers that are too large, and headers that are no properties. A
// property has one value, which is text: valid UTF-8, not empty, without the
// bytes 0x01 and 0x02. Binary values, a binary key without the option sharding_key,
// repeated names, and names that RocketMQ uses itself are refused, such as those
// by which it would delay. In a message that was delivered before and published
// again, what client and broker have added to it passes, and is left out.
func (s *Sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, s.check)
}

func (s *Sink) check(m *core.Message) error {
	again := isAgain(m.Headers)
	for _, h := range m.Headers {
		if isScheduling(h.Name) && !again {
			return core.Invalidf("headers", "have the name %q, with which RocketMQ would delay the message: set the delay of delaybridge instead", core.Shorten(h.Name, 64))
		}
	}
	_, err := s.settings.prepare(0, m)
	return err
}

// prepare returns m as it will be sent, or why it can't be.
func (s *settings) prepare(index int, m *core.Message) (*outgoing, error) {
	if err := s.checkTopic(m.Topic); err != nil {
		return nil, err
	}
	if err := checkOptions(m.Options); err != nil {
		return nil, err
	}
	if err := checkHeaders(m.Headers); err != nil {
		return nil, err
	}
	if m.Options[optionShardingKey] == "" && !isText(string(m.Key)) {
		return nil, core.Invalidf("key", "is not UTF-8 without the bytes 0x01 and 0x02, as a sharding key must be: set another one in options.%s", optionShardingKey)
	}
	o := newOutgoing(index, m)
	if err := s.checkSizes(o); err != nil {
		return nil, err
	}
	return o, nil
}

func (s *settings) checkTopic(topic string) error {
	if err := s.cluster.CheckTopic("topic", topic); err != nil {
		return err
	}
	lower := strings.ToLower(topic)
	if reservedTopics[topic] || strings.HasPrefix(lower, "rmq_sys_") || strings.Contains(lower, "%rmq_sys_") ||
		strings.Contains(lower, "%retry%") || strings.Contains(lower, "%dlq%") {
		return core.Invalidf("topic", "is reserved by RocketMQ")
	}
	return nil
}

func checkOptions(options map[string]string) error {
	for name, value := range options {
		switch name {
		case optionTags, optionKeys, optionShardingKey:
			if err := checkValue("options."+name, value); err != nil {
				return err
			}
		default:
			if !strings.HasPrefix(name, core.OptionPrefix) {
				return core.Invalidf("options."+name, "is not known; known are tags, keys, sharding_key")
			}
		}
	}
	if tags := options[optionTags]; strings.Contains(tags, "||") || strings.TrimSpace(tags) != tags {
		return core.Invalidf("options."+optionTags, "must be one tag, without || and without spaces around it")
	}
	return nil
}

func checkHeaders(headers []core.Header) error {
	again := isAgain(headers)
	for n, h := range headers {
		if isLeftOut(h.Name, again) {
			continue
		}
		shown := core.Shorten(h.Name, 64)
		if isReserved(h.Name) {
			return core.Invalidf("headers", "have the name %q, which is reserved by RocketMQ", shown)
		}
		if !isText(h.Name) {
			return core.Invalidf("headers", "have the name %q, which is not UTF-8 without the bytes 0x01 and 0x02", shown)
		}
		for _, earlier := range headers[:n] {
			if earlier.Name == h.Name {
				return core.Invalidf("headers", "have the name %q twice, and a RocketMQ property has one value", shown)
			}
		}
		if err := checkValue("headers", string(h.Value)); err != nil {
			return core.Invalidf("headers", "have the name %q, whose value %s", shown, err.Reason)
		}
	}
	return nil
}

func checkValue(field, value string) *core.InvalidError {
	switch {
	case value == "":
		return core.Invalidf(field, "is empty, which RocketMQ drops")
	case !isText(value):
		return core.Invalidf(field, "is not UTF-8 without the bytes 0x01 and 0x02, and a RocketMQ property is text")
	}
	return nil
}

// isText reports whether s can stand in a property: 0x01 and 0x02 separate them.
func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 1) < 0 && strings.IndexByte(s, 2) < 0
}

func (s *settings) checkSizes(o *outgoing) error {
	properties := len(o.properties)
	if o.source.ID == "" {
		properties += 2 * core.MaxIDLen // as Accept has not made one yet
	}
	if properties > maxPropertyBytes {
		return tooLarge("headers", "and options are larger than the limit of RocketMQ's properties")
	}
	if limit := s.maxMessageBytes - bodyRoom; len(o.source.Body) > limit {
		return tooLarge("body", fmt.Sprintf("is larger than %d bytes", limit))
	}
	return nil
}

func tooLarge(field, reason string) *core.InvalidError {
	return &core.InvalidError{Field: field, Reason: reason, TooLarge: true}
}
