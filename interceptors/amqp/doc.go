// Package amqpsource takes delayed messages from queues of RabbitMQ 3.8 or newer.
// Producers keep their client and say by headers when a message is due: x-delay,
// as with the delayed message plugin, which is then not needed, and those of
// other dialects.
//
// A message is acknowledged when it is parked or rejected. While the store
// fails nothing is acknowledged, and prefetch bounds what the broker sends.
//
// # Settings
//
// Besides those of package source, whose dialects are native, rabbitmq, amqp1
// and cloudevents by default:
//
//	urls                amqp:// or amqps:// URLs of one or more nodes; required. Tried
//	                    in turn. Percent-encode what is special in user and password
//	queues              to read from. They must exist
//	exchanges           see below; at least one of the two is needed
//	queue_arguments     for the queues that belong to exchanges, such as
//	                    x-queue-type: quorum; none
//	reject_queue        where messages go that can't be parked, or
//	reject_exchange     the exchange, which gets them with the routing key that they
//	                    came with. It must exist. One of the two is required unless
//	                    on_bad_record is stop or skip
//	properties          what becomes of a message's properties: "amqp" (default) makes
//	                    them options of an AMQP sink, which other sinks refuse;
//	                    "headers" makes those that are text headers (content-type,
//	                    content-encoding, type, app-id, correlation-id, reply-to,
//	                    expiration-ms); "none" leaves them out
//	x_delay_compat      "negate" (default): a message that had x-delay: 5000 arrives with
//	                    x-delay: -5000, as from the plugin, whole numbers in 32 bits
//	                    if they fit, and others exactly, in the type that they had;
//	                    "remove": without it
//	require_message_id  false; true rejects messages without an ID, see below
//	drop_user_id        false; true leaves the property user_id out, which can't be
//	                    passed on, instead of rejecting the message
//	prefetch            messages that the broker sends ahead, for each queue, 1 to 65535;
//	                    1000. So many bodies are in memory, at worst
//	batch               messages that are parked at once, 1 to 500; 500
//	confirm_timeout     for the broker to confirm a rejected message; 5s
//	dial_timeout, write_timeout, heartbeat, tls
//	                    as those of the AMQP sink
//
// The topic that "{topic}" stands for is the name of the queue. In the sink's
// default exchange the topic is again the name of a queue.
//
// # Exchanges
//
// Each of exchanges stands for one of the type x-delayed-message:
//
//	name     of the exchange that producers publish to
//	to       the exchange that messages go to when they are due, with the routing
//	         key, headers and properties that they came with. An AMQP sink publishes
//	         them
//	type     fanout (default), topic or headers: what name is declared as. It makes no
//	         difference to the messages, as the source gets all of them; but producers
//	         that declare it too must say the same
//	queue    that the source reads; "delaybridge." and the name
//	declare  true; false if name and queue exist and the source may not declare them
//
// A message without a time is sent at once unless untagged says otherwise, as
// with the plugin. RabbitMQ's own exchanges route at once, so name and to can't be
// one exchange; they can have one name in two virtual hosts (then set allow_loop).
//
// name and queue are durable, and not deleted by the source. It declares and binds
// them when it connects, every 5 s after, and within a tenth of a second when the
// exchange was deleted, which is logged as an error: one that was recreated has lost
// its binding, and what is published to it meanwhile is confirmed and lost. While that
// fails it reads nothing from the queue. A quorum queue has no delivery limit on
// RabbitMQ 4, unless queue_arguments has one. An exchange with the name of the queue,
// which vanishes with the other, is how a deletion is seen.
//
// # IDs
//
// The ID is made of the name of the source, the queue and the property
// message_id, such as r:orders:orders.delayed:42; a header delaybridge-id goes
// before. Where the message_id has characters that an ID can't have, or is too
// long, a hash stands for it. A message that is delivered again (after a crash, a
// lost connection) is parked once then, and one that uses the ID of another with
// other content is rejected.
//
// What a consumer publishes again, with the headers that we have added, has the
// hop in its ID too (r:orders:orders.delayed:42~1), or without a message_id a hash
// of all that is in it. Without these headers it is new if a message with its
// message_id was delivered and the broker says that it has not given it to anyone
// before (redelivered is not set). See docs/retry.md.
//
// A message with neither has nothing by which it could be known again: AMQP has
// no position, and equal messages may both be meant. If the bridge or the
// connection ends between parking and acknowledging, it is parked twice. Set
// message_id in producers, and require_message_id to be sure that they do.
//
// # What is kept
//
// Body and routing key, all properties but those below, and all headers with
// their types, tables and lists included. delivery_mode is the sink's (persistent),
// cluster_id is left out, expiration counts from the delivery, and priority up to
// 9 is heeded by the bridge too. user_id is refused, see above, and by the sink a
// reply_to that is a direct one, properties with control characters, and CC; of
// BCC the broker tells nobody.
// A table has no order, and of a name that is in it twice the last counts. The
// headers in which a broker counts deliveries are left out. In other brokers'
// sinks a number is text, and a table JSON as the option header_types of the AMQP
// sink has it.
//
// A message whose expiration is over before the bridge has read it is dropped by
// RabbitMQ, as in any queue.
//
// # Rejected messages
//
// They have the body, the properties and the headers that they came with, and
// these headers besides: delaybridge-reject-reason, delaybridge-source-queue,
// -source-exchange and -source-routing-key. delaybridge-reject-left-out names what
// is missing, separated by commas: expiration, user_id, CC, or headers if they
// are too large or can't be read. The broker's confirm comes first, then the source's
// acknowledgement; so after a crash one may be there twice.
package amqpsource
