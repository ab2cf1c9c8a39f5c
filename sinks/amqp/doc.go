// Package amqp delivers messages to RabbitMQ, and to other brokers that speak
// AMQP 0-9-1 with publisher confirms.
//
// The topic of a message is the routing key, and the exchange is that of the
// settings. With none set, which is the default exchange, the topic is the name
// of a queue. Every message is published as mandatory and persistent, and
// counts as delivered when the broker has confirmed it and has not returned it.
// For that to outlive a broker its queues must be durable, best quorum queues.
//
// The ID becomes message_id, the priority (if above 0) priority, and headers go
// into the table of headers as long strings, byte for byte, unless the option
// header_types says otherwise. A table has no order, no
// repeats and no place for the key: headers that repeat a name are refused when
// a message is accepted. So are CC and BCC, which RabbitMQ takes as more
// routing keys. Headers that ask for a delay (x-delay and the like) are left
// out. A nil header value is a void field, a nil body an empty one.
//
// # Settings
//
//	urls              amqp:// or amqps:// URLs of one or more nodes; required. Tried
//	                  in turn. Percent-encode what is special in user and password
//	exchange          to publish to; the default exchange
//	mandatory         true; false lets the broker drop messages that no queue gets
//	persistent        true; false keeps messages in the broker's memory only
//	connections       1
//	channels          16, on each connection: so many batches are on their way at once
//	max_message_size  the broker's max_message_size in bytes; 16777216, as in
//	                  RabbitMQ 4. Larger bodies are refused when they are accepted
//	dial_timeout      for a connection to be made, TLS and login included, and for
//	                  a channel to be opened; 3s
//	write_timeout     for the broker to take what is written; 3s
//	heartbeat         10s; a silent broker is given up after one and a half of it
//	tls               for amqps://: ca, cert and key are files in PEM, server_name
//	                  replaces the host in the check of the broker's certificate,
//	                  insecure_skip_verify leaves that check out
//
// How long a confirm is waited for is the timeout of the sink.
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
// Each Deliver has a channel for itself: it publishes its batch without
// waiting, then collects the confirms. An exchange that was not used before is
// tried with one message alone, as RabbitMQ answers a missing or forbidden
// exchange by closing the channel, which leaves everything on it unknown. If
// that happens all the same, those that were on the channel go alone the next
// time, on a connection of their own, so that the culprit is found and hurts
// nobody else.
//
// # Classes of errors
//
//	retry          no node can be reached, or the broker refuses the message for now
//	               (a full queue, a quorum that is not there)
//	unknown        published, but the connection ended or time ran out before the
//	               confirm
//	permanent      the broker refuses this message; it was alone, to be sure
//	blocked        login, virtual host or certificate is refused, or the broker holds
//	               all publishers back for want of memory or disk
//	topic_blocked  no such exchange, no permission for it, or no queue gets the message
package amqp
