// Package rocketmqsource reads delayed messages from topics of Apache RocketMQ 4.9 and
// 5.x, as a member of a consumer group, with the remoting protocol (name servers on
// 9876, brokers on 10911). Producers keep their client and set in user properties when
// a message is due.
//
// Body and user properties become the message's, byte for byte. The sharding key (that
// of the Java, 5.x and Go clients) becomes its key; KEYS and TAGS become the options
// "keys" and "tags" of a RocketMQ sink, or headers. Other properties of clients and
// brokers, such as UNIQ_KEY, TRACE_ON and those for replies, are left out, and so are
// properties about scheduling. Of a repeated property the last value counts, and an
// empty property counts as absent, as for any consumer. Compressed bodies are
// decompressed. A message beyond the limits (for example a sharding key or KEYS of more
// than 1,024 bytes) is rejected.
//
// An offset is committed when all messages before it are parked or rejected. A message
// that is read again (after a crash, a rebalance, a lost commit) has the same ID and is
// parked once.
//
// # Settings
//
// In addition to those of package source, whose dialects are native and rocketmq by
// default:
//
//	name_servers     host:port of one or more name servers of one cluster; required
//	topics           to read from; required
//	tags             reads messages with one of these tags only; the others are
//	                 skipped permanently. Without it all are read
//	group            the consumer group, of sources with these same settings only;
//	                 delaybridge. A broker that does not create groups
//	                 (autoCreateSubscriptionGroup=false) must know it
//	namespace        prefix of topics and group, as in the RocketMQ sink
//	access_key, secret_key, security_token
//	                 sign every request (ACL); as those of the RocketMQ sink. The
//	                 user needs Sub for topics and group, Pub for the reject topic
//	start            where to start in a queue for which the group has no offset:
//	                 earliest (default) or latest. Brokers of 4.x start at the first
//	                 message in any case while a queue still has it in memory
//	reject_topic     topic for messages that can't be parked; required unless
//	                 on_bad_record is stop or skip
//	properties       how KEYS and TAGS are kept: "options" (default) for a RocketMQ
//	                 sink, "headers" for any other
//	batch            messages that are parked at once, 1 to 500; 500
//	request_timeout  of a request or a dial, 100ms to 1m; 3s
//
// # Delays of RocketMQ itself
//
// The topic that a source reads is an ordinary topic, so a broker applies its own delay
// properties before the source reads the message:
//
//	                                 4.9                   5.x
//	DELAY (setDelayTimeLevel)        waits in the broker   waits in the broker
//	TIMER_DELIVER_MS, TIMER_DELAY_MS,
//	TIMER_DELAY_SEC                  passes at once        waits in the broker
//	any of them, sent in a batch     passes at once        passes at once
//
// The message keeps the properties. The broker adds REAL_TOPIC to a message that has
// waited. So:
//
//   - A message that has waited in the broker is due at once. It is not delayed a
//     second time, and not rejected as untagged. If it has a time of another
//     dialect too (delaybridge-delay), that one counts, from when it is parked.
//   - A message that has passed at once is delayed here as the property says. If
//     the dialect rocketmq is off, the property is a header, for which a RocketMQ
//     sink refuses the message.
//   - To have all of a delay here (to cancel the message, to go beyond 18 levels or
//     the broker's longest timer, to look at it), set a user property of the native
//     dialect, which no broker acts on: delaybridge-delay: 15m, or
//     delaybridge-deliver-at.
//
// # IDs
//
// The ID is the producer's own if delaybridge-id has one. Otherwise it is formed from
// the position in the queue and the time at which the broker stored the message, in
// base 36: r:orders:orders-delayed:broker-a:0:1234:mie8x1q0. It is the same each time
// the message is read, also from a slave, and differs after a broker was wiped or has
// lost its last messages. UNIQ_KEY, the message ID of RocketMQ's clients, is not used:
// some clients omit it or repeat one, so that messages would be lost. So a send that a
// client has retried is two messages, unless they have a delaybridge-id.
//
// # Rejected messages
//
// A message in the reject topic has its original body and properties, and in addition
// delaybridge-reject-reason, and delaybridge-source-topic, -source-broker,
// -source-queue and -source-offset. No broker applies its delay properties. A part that
// is too large is left out, and named in delaybridge-reject-left-out: body or
// properties. A message that the broker has stored but not flushed or replicated in
// time counts as written.
//
// # How it works
//
// The package implements the protocol itself: RocketMQ's client for Go leaks
// goroutines, sends messages that are not acknowledged to a retry topic and finally to
// a dead letter topic, and decompresses without a bound. Each broker has one
// connection. Members distribute queues as RocketMQ's own clients do, every ten seconds
// and when a broker reports a change; a killed member is detected at once, a hanging
// one after two minutes. While the store fails, the same messages are retried with
// growing pauses, and nothing more is fetched.
//
// A broker returns 32 messages of a queue at once, and 8 if it must read them from disk
// (maxTransferCountOnMessageInMemory and -InDisk), so several queues are read faster
// than one.
//
// If a broker no longer has the next offset, because it has deleted or lost messages,
// the source continues at the offset that the broker returns, and logs an error.
//
// A running source ignores a reset of its offsets (resetOffsetByTime): stop all members
// of the group first. TLS is not supported.
package rocketmqsource
