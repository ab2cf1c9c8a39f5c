package dialect

import (
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// field is what a header sets of a message.
type field int

const (
	nothing field = iota
	deliverAt
	delay
	expiresAt
	ttl
	ttlOnceDue // counts from when the message is due
	id
	sink
	topic
	key
	priority
	fields
)

// row is one header of one dialect.
type row struct {
	dialect string
	header  string // as the dialect's own documentation spells it
	field   field
	parse   parser
	keep    bool // it is passed on as well
}

// table is every header that is about scheduling. The header of a row is in no
// other row.
var table = [...]row{
	{Native, core.HeaderDeliverAt, deliverAt, parseTime, false},
	{Native, core.HeaderPrefix + "delay", delay, parseDuration, false},
	{Native, core.HeaderPrefix + "expires-at", expiresAt, parseTime, false},
	{Native, core.HeaderPrefix + "ttl", ttl, positive(parseDuration), false},
	{Native, core.HeaderID, id, parseName, false},
	{Native, core.HeaderPrefix + "sink", sink, parseName, false},
	{Native, core.HeaderPrefix + "topic", topic, parseName, false},
	{Native, core.HeaderPrefix + "key", key, parseText, false},
	{Native, core.HeaderPrefix + "priority", priority, parsePriority, false},

	{"rabbitmq", "x-delay", delay, orOver(count(time.Millisecond)), false},

	{"amqp1", "x-opt-delivery-time", deliverAt, epoch(time.Millisecond), false},
	{"amqp1", "x-opt-scheduled-enqueue-time", deliverAt, epoch(time.Millisecond), false}, // Azure Service Bus
	{"amqp1", "_AMQ_SCHED_DELIVERY", deliverAt, epoch(time.Millisecond), false},          // Artemis
	{"amqp1", "x-opt-delivery-delay", delay, count(time.Millisecond), false},
	{"amqp1", "AMQ_SCHEDULED_DELAY", delay, count(time.Millisecond), false}, // ActiveMQ
	{"amqp1", "AMQ_SCHEDULED_PERIOD", nothing, refuseRepeats, false},
	{"amqp1", "AMQ_SCHEDULED_REPEAT", nothing, refuseRepeats, false},
	{"amqp1", "AMQ_SCHEDULED_CRON", nothing, refuseRepeats, false},

	{"rocketmq", "DELAY", delay, parseLevel, false},
	{"rocketmq", "TIMER_DELIVER_MS", deliverAt, epoch(time.Millisecond), false},
	{"rocketmq", "TIMER_DELAY_MS", delay, count(time.Millisecond), false},
	{"rocketmq", "TIMER_DELAY_SEC", delay, count(time.Second), false},

	{"nats", "Nats-Schedule", deliverAt, parseAt, false},
	{"nats", "Nats-Schedule-Target", topic, parseName, false},
	{"nats", "Nats-Schedule-TTL", ttlOnceDue, parseNATSTTL, false},
	{"nats", "Nats-Schedule-Source", nothing, refuse("is not supported: send the body in the message"), false},
	{"nats", "Nats-Schedule-Rollup", nothing, refuse("is not supported"), false},
	{"nats", "Nats-Schedule-Time-Zone", nothing, refuse("is not supported: the time in Nats-Schedule has an offset"), false},
	{"nats", "Nats-Msg-Id", id, parseName, false},

	{"etf1", "scheduler-epoch", deliverAt, epoch(time.Second), false},
	{"etf1", "scheduler-target-topic", topic, parseName, false},
	{"etf1", "scheduler-target-key", key, parseText, false},

	{"timebridge", "X-Timebridge-When", deliverAt, parseTime, false},
	{"timebridge", "X-Timebridge-Where", topic, parseName, false},

	// ce_ is ce-, as is cloudEvents_ to cloudEvents-.
	{"cloudevents", "ce-deliverat", deliverAt, parseTime, false},
	{"cloudevents", "cloudEvents:deliverat", deliverAt, parseTime, false},
	{"cloudevents", "cloudEvents_deliverat", deliverAt, parseTime, false},
	{"cloudevents", "ce-deliverdelay", delay, parseDuration, false},
	{"cloudevents", "cloudEvents:deliverdelay", delay, parseDuration, false},
	{"cloudevents", "cloudEvents_deliverdelay", delay, parseDuration, false},
	{"cloudevents", "ce-expirytime", expiresAt, parseTime, true},
	{"cloudevents", "cloudEvents:expirytime", expiresAt, parseTime, true},
	{"cloudevents", "cloudEvents_expirytime", expiresAt, parseTime, true},

	{"spring", "retry_topic-backoff-timestamp", deliverAt, parseBigEndian, false},
}

var refuseRepeats = refuse("is not supported: a message is delivered once")
