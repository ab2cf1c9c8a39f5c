// Package dialect reads the headers by which producers ask for a later
// delivery: our own and those of brokers and schedulers that are in use
// already. Every listener uses it, so that a header means the same wherever it is
// heard.
//
// Names match in any case, and '_' equals '-'. Units are fixed by the dialect
// and never guessed. The dialects, and what their headers mean:
//
//	native       delaybridge-deliver-at, -delay, -expires-at, -ttl, -id, -sink,
//	             -topic, -key, -priority, as in the HTTP API. Any other name with
//	             the prefix is refused
//	rabbitmq     x-delay: ms from acceptance, whole or not, as a number or as
//	             text of digits. A negative one marks, as the delayed message
//	             plugin does, a delay that is over
//	amqp1        x-opt-delivery-time, x-opt-scheduled-enqueue-time and
//	             _AMQ_SCHED_DELIVERY: ms since 1970, or a timestamp;
//	             x-opt-delivery-delay, AMQ_SCHEDULED_DELAY: ms from acceptance.
//	             AMQ_SCHEDULED_PERIOD, _REPEAT and _CRON are refused
//	rocketmq     DELAY: a level of 1 to 18 (0 is none); TIMER_DELIVER_MS: ms since
//	             1970; TIMER_DELAY_MS, TIMER_DELAY_SEC: from acceptance
//	nats         Nats-Schedule: "@at" and an RFC 3339 time, nothing else;
//	             Nats-Schedule-Target: the topic; Nats-Schedule-TTL: how long after
//	             that time the message is of use; Nats-Msg-Id: the id
//	etf1         scheduler-epoch: s since 1970; scheduler-target-topic, -target-key
//	timebridge   X-Timebridge-When: RFC 3339; X-Timebridge-Where: the topic
//	cloudevents  deliverat (RFC 3339), deliverdelay (a duration) and expirytime
//	             (RFC 3339), after ce- (HTTP, NATS), ce_ (Kafka), cloudEvents: or
//	             cloudEvents_ (AMQP). expirytime is passed on too, as it belongs
//	             to the event; the event's id is not taken as the message's, as
//	             one event may be sent to several topics
//	spring       retry_topic-backoff-timestamp: ms since 1970, as one to eight
//	             bytes of a big-endian number
//
// A message with delaybridge-attempt or delaybridge-hop was delivered by us and is
// published again, whatever dialects are on. Its delaybridge-id is then not its
// own, and its delaybridge-deliver-at counts only if it is still to come and no
// other header says when.
//
// Durations are as core.ParseDuration reads them, times as core.ParseTime does.
// A time that has passed means at once.
package dialect
