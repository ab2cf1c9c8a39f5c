// Package rocketmq is a sink that sends messages to Apache RocketMQ 4.9 and 5.x
// by the remoting protocol (name servers on 9876, brokers on 10911).
//
// Due messages of one topic and queue are sent in one batch request, also those of several
// Deliver calls that wait for a worker at the same time. The message's key chooses the
// queue, as SelectMessageQueueByHash does in Java; without a key they take turns. Headers
// become user properties, which have no order; the ID is the first of the message's KEYS,
// and the option "keys" adds more. The option "tags" sets the tag. The sharding key is the
// option "sharding_key" or else the message's key, which must be text then. See Sink.Check
// for messages that RocketMQ can't carry.
//
// Check refuses properties with which RocketMQ itself would delay the message (DELAY,
// TIMER_...). Deliver never sends them, because the message is already due.
//
// Each broker has separate workers. While a broker does not respond and others do,
// messages without a key are sent to another broker, and messages that only this broker
// could store fail at once, as TopicBlocked.
//
// # Settings
//
//	name_servers      host:port of one or more name servers of one cluster; required
//	group             producer group; delaybridge
//	namespace         is put before every topic ("namespace%topic"), and topics may
//	                  then have no % themselves; none
//	access_key, secret_key
//	                  sign every request (ACL); both or neither
//	security_token    sent with the keys, if the cluster requires one
//	send_timeout      of one request to a broker, 100ms to 3s; 3s: the client library
//	                  waits no longer
//	workers           concurrent requests to one broker, 1 to 64; 4
//	max_batch_bytes   of one request; 1048576, and less than max_message_bytes. A
//	                  message that is larger is sent alone
//	max_message_bytes the largest message that the brokers accept, 64 KiB to 12 MiB;
//	                  4194304, as maxMessageSize there. 34 KiB of it are reserved for
//	                  properties, the rest is for the body
//	flush_timeouts    handling of a message that the broker has stored but not flushed
//	                  or replicated in time: "retry" (default) sends it again, because a
//	                  duplicate is better than a loss; "accept" counts it as delivered
//
// # Limits of the client library
//
// The library does not support TLS. It has one logger for the process, which is set to
// slog's default logger. After Close some of its goroutines remain for up to ten
// seconds, and its connection to a name server for up to two minutes.
package rocketmq
