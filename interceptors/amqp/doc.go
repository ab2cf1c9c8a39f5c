// Package amqpsource reads delayed messages from queues of RabbitMQ 3.8 or newer.
// Producers keep their client and set in headers when a message is due: x-delay, as
// with the delayed message plugin, which is then not needed, or the headers of other
// dialects.
//
// A message is acknowledged when it is parked or rejected. While the store fails,
// nothing is acknowledged, and prefetch bounds how much the broker sends.
//
// # Settings
//
// In addition to those of package source, whose dialects are native, rabbitmq, amqp1
// and cloudevents by default:
//
//	urls                amqp:// or amqps:// URLs of one or more nodes; required. Tried
//	                    in turn. Percent-encode special characters in user and password
//	queues              to read from. They must exist
//	exchanges           see below; at least one of the two is needed
//	queue_arguments     for the queues of exchanges, such as
//	                    x-queue-type: quorum; none
//	reject_queue        queue for messages that can't be parked, or
//	reject_exchange     exchange for them, with their original routing
//	                    key. It must exist. One of the two is required unless
//	                    on_bad_record is stop or skip
//	properties          how a message's properties are kept: "amqp" (default) makes
//	                    them options of an AMQP sink, which other sinks refuse;
//	                    "headers" turns text properties into headers (content-type,
//	                    content-encoding, type, app-id, correlation-id, reply-to,
//	                    expiration-ms); "none" leaves them out
//	x_delay_compat      "negate" (default): a message with x-delay: 5000 arrives with
//	                    x-delay: -5000, as with the plugin: whole numbers in 32 bits
//	                    if they fit, others exactly, in their original type;
//	                    "remove": without it
//	require_message_id  false; true rejects messages without an ID, see below
//	drop_user_id        false; true leaves the property user_id out, which can't be
//	                    passed on, instead of rejecting the message
//	prefetch            messages that the broker sends ahead, for each queue, 1 to 65535;
//	                    1000. At most so many bodies are in memory
//	batch               messages that are parked at once, 1 to 500; 500
//	confirm_timeout     for the broker to confirm a rejected message; 5s
//	dial_timeout, write_timeout, heartbeat, tls
//	                    as those of the AMQP sink
//
// "{topic}" is the name of the queue. In the sink's default exchange the topic is again
// the name of a queue.
//
// # Exchanges
//
// Each entry of exchanges replaces an exchange of the type x-delayed-message:
//
//	name     of the exchange that producers publish to
//	to       the exchange that messages are published to when they are due, with their
//	         routing key, headers and properties. The sink must be an AMQP
//	         sink
//	type     fanout (default), topic or headers: the declared type of name. It makes no
//	         difference to the messages, because the source gets all of them; but producers
//	         that also declare the exchange must use the same type
//	queue    that the source reads; "delaybridge." and the name
//	declare  true; false if name and queue exist and the source may not declare them
//
// A message without a time is sent at once unless untagged is set, as with the plugin.
// RabbitMQ's own exchanges route at once, so name and to can't be the same exchange;
// they can have the same name in two virtual hosts (then set allow_loop).
//
// name and queue are durable, and the source does not delete them. It declares and
// binds them when it connects, every 5 s, and within a tenth of a second after the
// exchange was deleted. A deletion is logged as an error: a recreated exchange has lost
// its binding, and messages published to it meanwhile are confirmed and lost. While
// declaring fails, the source reads nothing from the queue. A quorum queue has no
// delivery limit on RabbitMQ 4, unless queue_arguments has one. The source detects a
// deletion with an additional exchange of the queue's name, which is deleted together
// with the exchange.
//
// # IDs
//
// The ID is formed from the name of the source, the queue and the property message_id,
// such as r:orders:orders.delayed:42; a header delaybridge-id takes precedence. A
// message_id that is too long, or has characters that an ID can't have, is replaced by
// a hash. So a message that is delivered again (after a crash, a lost connection) is
// parked once, and a message with the ID of another one and other content is rejected.
//
// If a consumer publishes a message again, with the headers that delaybridge has added,
// its ID also has the hop (r:orders:orders.delayed:42~1) or, without a message_id, a
// hash of its content. Without these headers it is a new message if one with its
// message_id was delivered and the broker has not set redelivered. See docs/retry.md.
//
// A message without message_id and delaybridge-id can't be recognized when it is
// delivered again: AMQP has no offsets, and equal messages may be intended. If the
// bridge or the connection ends between parking and acknowledging, it is parked twice.
// Set message_id in producers, and require_message_id to enforce it.
//
// # What is kept
//
// Body, routing key, all properties except those below, and all headers with their
// types, also tables and lists, are kept. delivery_mode is the sink's (persistent),
// cluster_id is left out, expiration counts from the delivery, and priority up to 9 is
// also the bridge's. user_id is refused, see above. The sink refuses a direct reply_to,
// properties with control characters, and CC; the broker does not pass on BCC. A table
// has no order; of a repeated name the last value counts. The headers in which a broker
// counts deliveries are left out. In sinks of other brokers a number is text, and a
// table is JSON as in the option header_types of the AMQP sink.
//
// RabbitMQ drops a message whose expiration ends before the bridge has read it, as in
// any queue.
//
// # Rejected messages
//
// A rejected message has its original body, properties and headers, and in addition the
// headers delaybridge-reject-reason, delaybridge-source-queue, -source-exchange and
// -source-routing-key. delaybridge-reject-left-out lists the parts that are missing,
// separated by commas: expiration, user_id, CC, or headers if they are too large or
// can't be read. The source acknowledges after the broker's confirm; so after a crash a
// message may be rejected twice.
package amqpsource
