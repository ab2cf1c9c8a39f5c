// Package amqp delivers messages to RabbitMQ, and to other brokers that support AMQP
// 0-9-1 with publisher confirms.
//
// The topic of a message is the routing key; the exchange is set in the settings.
// Without one, messages are published to the default exchange, and the topic is the
// name of a queue. Every message is published as mandatory and persistent, and counts
// as delivered when the broker has confirmed it and has not returned it. To survive a
// restart of the broker, the queues must be durable, best quorum queues.
//
// The ID becomes message_id, a priority above 0 becomes priority, and headers become
// long strings in the header table, byte for byte, unless the option header_types
// defines other types. A table has no order, and AMQP has no field for the key.
// Repeated header names are refused when a message is accepted. So are CC and BCC,
// which RabbitMQ interprets as more routing keys. Headers that request a delay, such as
// x-delay, are left out. A nil header value is a void field, a nil body an empty one.
//
// # Settings
//
//	urls              amqp:// or amqps:// URLs of one or more nodes; required. Tried
//	                  in turn. Percent-encode special characters in user and password
//	exchange          to publish to; default: the default exchange
//	mandatory         true; false lets the broker drop messages that reach no queue
//	persistent        true; false keeps messages in the broker's memory only
//	connections       1
//	channels          16, on each connection; each sends one batch at a time
//	max_message_size  the broker's max_message_size in bytes; 16777216, as in
//	                  RabbitMQ 4. Larger bodies are refused when they are accepted
//	dial_timeout      for a connection, TLS and login included, and for
//	                  a channel to be opened; 3s
//	write_timeout     for a write to the connection; 3s
//	heartbeat         10s; the connection is closed if the broker is silent for 1.5 of it
//	tls               for amqps://: ca, cert and key are files in PEM, server_name
//	                  replaces the host in the check of the broker's certificate,
//	                  insecure_skip_verify leaves that check out
//
// The timeout of the sink bounds the wait for confirms.
//
// # Options of a message
//
//	exchange, routing_key                        in place of the exchange set, the topic
//	content_type, content_encoding, type, app_id
//	correlation_id, reply_to                     the properties of these names
//	expiration_ms                                the property expiration, in milliseconds
//	message_id, priority                         the properties, in place of ID and priority
//	timestamp                                    the property, in seconds since 1970
//	x_delay                                      a header of that name, for consumers of what
//	                                             the delayed message plug-in left there: a
//	                                             number that is not above zero; one that is
//	                                             no whole number, or text, has its letter of
//	                                             header_types (S x f d D) before it: S-1500.5
//	header_types                                 see below
//
// header_types has a letter for each header, in their order, and may stop early:
// S for a long string, which those beyond its end are too; t (true or false);
// b B s u I i l, whole numbers; f d; D, such as 1234e-2; T, seconds since 1970;
// x, bytes; F, a table; A, a list. The text of a table is a JSON object, that of
// a list a JSON array, and what is in them a pair of letter and text, or table,
// or list, such as {"count":["l","1"],"keys":["A",[["S","a"]]],"none":["V"]}.
// There x is in base64, as are long strings that are not UTF-8, with Sx for S.
//
// # How it works
//
// Each Deliver uses a channel exclusively: it publishes its batch without waiting, then
// collects the confirms. RabbitMQ closes the channel if an exchange is missing or
// forbidden, and the outcome of all messages on it is then unknown. So the first
// message to a new exchange is sent alone. If a channel is closed later, its messages
// are next sent one at a time on a separate connection, to isolate the message at
// fault.
//
// # Classes of errors
//
//	retry          no node can be reached, or the broker refuses the message for now
//	               (a full queue, no quorum)
//	unknown        published, but the connection ended or time ran out before the
//	               confirm
//	permanent      the broker refuses this message, which was sent alone
//	blocked        login, virtual host or certificate is refused, or the broker blocks
//	               all publishers because it lacks memory or disk space
//	topic_blocked  no such exchange, no permission for it, or the message reaches no queue
package amqp
