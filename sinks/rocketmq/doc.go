// Package rocketmq is a sink that sends messages to Apache RocketMQ 4.9 and 5.x
// by the remoting protocol (name servers on 9876, brokers on 10911).
//
// Due messages of one topic and queue leave in one batch request, also those of
// several Delivers if they wait for a worker at the same time. The message's
// key chooses the queue, as SelectMessageQueueByHash does in Java; without a key
// they take turns. Headers become user properties, which have no order; the ID
// is the first of the message's KEYS, and the option "keys" adds more. The
// option "tags" sets the tag. The sharding key is the option "sharding_key" or
// else the message's key, which must be text then. See Sink.Check for what RocketMQ can't carry.
//
// Properties by which RocketMQ itself would delay the message (DELAY, TIMER_...)
// are refused by Check, and if a message has them all the same, they are not sent:
// it is due already.
//
// Each broker has workers of its own. One that fails is passed over where others
// work, until it has given a sign of life: messages without a key go to another,
// and those that only it can take fail at once, as TopicBlocked.
//
// # Settings
//
//	name_servers      host:port of one or more name servers of one cluster; required
//	group             the producer group that the brokers see; delaybridge
//	namespace         is put before every topic ("namespace%topic"), and topics may
//	                  then have no % themselves; none
//	access_key, secret_key
//	                  sign every request (ACL); both or neither
//	security_token    goes with the keys, where the cluster wants one
//	send_timeout      of one request to a broker, 100ms to 3s; 3s: the client library
//	                  waits no longer
//	workers           requests to one broker that are under way at once, 1 to 64; 4
//	max_batch_bytes   of one request; 1048576, and less than max_message_bytes. A
//	                  message that is larger travels alone
//	max_message_bytes the largest message that the brokers take, 64 KiB to 12 MiB;
//	                  4194304, as there (maxMessageSize). Of it, 34 KiB are kept for
//	                  properties: a body may have the rest
//	flush_timeouts    what it means if the broker has stored a message but not flushed
//	                  or replicated it in time: "retry" (default) sends it again, as a
//	                  duplicate is better than a loss; "accept" takes it as delivered
//
// # Limits of the client library
//
// There is no TLS, as the library has none. The library has one logger
// for the process; it is set to slog's default logger. After Close some of its
// goroutines linger for up to ten seconds, and its connection to a name server
// for up to two minutes.
package rocketmq
