// Package dialect decodes the headers with which producers request a later delivery:
// delaybridge's own, and those of other brokers and schedulers. All listeners and
// sources use it, so that a header has the same meaning everywhere.
//
// Names match in any case, and '_' equals '-'. Each dialect has fixed units. The
// dialects and their headers:
//
//	native       delaybridge-deliver-at, -delay, -expires-at, -ttl, -id, -sink,
//	             -topic, -key, -priority, as in the HTTP API. Any other name with
//	             the prefix is refused
//	rabbitmq     x-delay: ms from acceptance, whole or not, as a number or as
//	             text of digits. As with the delayed message plugin, a negative
//	             number marks a delay that is over
//	amqp1        x-opt-delivery-time, x-opt-scheduled-enqueue-time and
//	             _AMQ_SCHED_DELIVERY: ms since 1970, or a timestamp;
//	             x-opt-delivery-delay, AMQ_SCHEDULED_DELAY: ms from acceptance.
//	             AMQ_SCHEDULED_PERIOD, _REPEAT and _CRON are refused
//	rocketmq     DELAY: a level of 1 to 18 (0 is none); TIMER_DELIVER_MS: ms since
//	             1970; TIMER_DELAY_MS, TIMER_DELAY_SEC: from acceptance
//	nats         Nats-Schedule: "@at" and an RFC 3339 time, nothing else;
//	             Nats-Schedule-Target: the topic; Nats-Schedule-TTL: how long after
//	             that time the message expires; Nats-Msg-Id: the id
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
// A message with delaybridge-attempt or delaybridge-hop was delivered by delaybridge
// and is published again, regardless of the enabled dialects. Its delaybridge-id is
// then ignored, and its delaybridge-deliver-at is used only if it is in the future and
// no other header has a time.
//
// Durations are in the form of core.ParseDuration, times in that of core.ParseTime. A
// time that has passed means at once.
package dialect
