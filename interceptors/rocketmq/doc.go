// Package rocketmqsource takes delayed messages from topics of Apache RocketMQ 4.9
// and 5.x, as a member of a consumer group, by the remoting protocol (name servers
// on 9876, brokers on 10911). Producers keep their client and say by user
// properties when a message is due.
//
// Body and user properties become the message's, byte for byte. The sharding key
// (that of the Java, 5.x and Go clients) becomes its key; KEYS and TAGS become
// the options "keys" and "tags" of a RocketMQ sink, or headers. What else there
// is belongs to clients and brokers and is left out, such as UNIQ_KEY, TRACE_ON
// and what replies need; so are properties about scheduling. Of a property that
// appears twice the last counts, and an empty one is none, as for any consumer.
// Compressed bodies are decompressed. What is beyond the limits of a message (a
// sharding key or KEYS of more than 1,024 bytes, say) is rejected.
//
// An offset is committed when all messages before it are parked or rejected. A
// message that is read again (after a crash, while queues change hands, after a
// lost commit) has the same ID and is parked once.
//
// # Settings
//
// Besides those of package source, whose dialects are native and rocketmq by
// default:
//
//	name_servers     host:port of one or more name servers of one cluster; required
//	topics           to read from; required
//	tags             reads messages with one of these tags only; the others are
//	                 passed over permanently. Without it all are read
//	group            the consumer group, of sources with these same settings only;
//	                 delaybridge. A broker that makes no groups by itself
//	                 (autoCreateSubscriptionGroup=false) must know it
//	namespace        goes before topics and group, as that of the RocketMQ sink
//	access_key, secret_key, security_token
//	                 sign every request (ACL); as those of the RocketMQ sink. The
//	                 user needs Sub for topics and group, Pub for the reject topic
//	start            where to begin in a queue of which the group has no offset:
//	                 earliest (default) or latest. Brokers of 4.x begin at the first
//	                 message in any case while a queue still has it in memory
//	reject_topic     where messages go that can't be parked; required unless
//	                 on_bad_record is stop or skip
//	properties       what KEYS and TAGS become: "options" (default) for a RocketMQ
//	                 sink, "headers" for any other
//	batch            messages that are parked at once, 1 to 500; 500
//	request_timeout  of a request or a dial, 100ms to 1m; 3s
//
// # Delays that RocketMQ honours itself
//
// The topic that a source reads is a topic like any other, so a broker acts on
// its own properties before the source sees the message:
//
//	                                 4.9                   5.x
//	DELAY (setDelayTimeLevel)        waits in the broker   waits in the broker
//	TIMER_DELIVER_MS, TIMER_DELAY_MS,
//	TIMER_DELAY_SEC                  passes at once        waits in the broker
//	any of them, sent in a batch     passes at once        passes at once
//
// The properties are still there afterwards, but with REAL_TOPIC, which the
// broker adds to a message that has waited. So:
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
// The ID is the producer's own if delaybridge-id has one. Else it is made of the
// position in the queue and the time at which the broker stored the message, in
// base 36: r:orders:orders-delayed:broker-a:0:1234:mie8x1q0. That is the same
// however often the message is read, from a slave too, and other after a broker
// was wiped or has lost its last messages. UNIQ_KEY, the message ID that clients
// show, is not used: some clients leave it out or make the same one twice, and
// would lose messages by it. So a send that a client tried twice is two messages
// here as elsewhere, unless they have a delaybridge-id.
//
// # Rejected messages
//
// A message in the reject topic has the body and all properties that it came
// with, and these besides: delaybridge-reject-reason, and delaybridge-source-topic,
// -source-broker, -source-queue and -source-offset. No broker acts on what it says
// about a delay. What is too large comes without it, and with
// delaybridge-reject-left-out: body or properties. A message that the broker has
// stored but not flushed or replicated in time counts as written.
//
// # How it works
//
// The package speaks the protocol itself: RocketMQ's client for Go leaves
// goroutines behind, sends what it is not told is done to a retry topic and at
// last to a dead letter topic, and decompresses without a bound. Each broker has
// one connection. Members share queues out as RocketMQ's own clients do, every ten
// seconds and when a broker reports a change; one that is killed is missed at
// once, one that hangs after two minutes. While the store fails the same messages
// are tried again, ever slower, and nothing is fetched beyond what is in flight.
//
// A broker gives 32 messages of a queue at once, and 8 if it must read them from
// disk (maxTransferCountOnMessageInMemory and -InDisk), so more queues are read
// faster than one.
//
// Where a broker does not have the next offset any more, because it has deleted
// or lost messages, the source continues where the broker says, and logs an error.
//
// A source does not obey a reset of its offsets (resetOffsetByTime) while it
// runs: stop all of the group first. There is no TLS.
package rocketmqsource
