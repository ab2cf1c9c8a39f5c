// Package kafka delivers messages to Apache Kafka 1.0 or newer.
//
// The topic of a message is the Kafka topic; its key, body and headers become
// those of the record, byte for byte: headers keep their order and repeats, and
// a nil key, body or header value is a null on the wire (a null body is a
// tombstone). The record's time is when it is sent. Every record is
// acknowledged by all in-sync replicas before it counts as delivered.
//
// # Settings
//
//	brokers            host:port of one or more brokers to begin with; required
//	client_id          how we are called in the brokers' logs and quotas; delaybridge
//	acks               "all", the only value: less would call lost messages delivered
//	compression        none (default), gzip, snappy, lz4 or zstd
//	partitioner        murmur2, the only value: as the Java client. Without a key,
//	                   each batch goes to one partition, in turn
//	tls                an object turns TLS on: ca, cert and key are files in PEM,
//	                   server_name replaces the broker's host name in the check of
//	                   its certificate, insecure_skip_verify leaves that check out
//	sasl               mechanism (plain, scram-sha-256, scram-sha-512), username, password
//	max_message_bytes  the topics' max.message.bytes; 1048588, as Kafka's default.
//	                   A message that can't fit is refused when it is accepted
//	metadata_ttl       how long a topic's leaders are believed without a sign that
//	                   they have moved, and a topic to be missing; 1s
//	dial_timeout       for a connection to be made, TLS and SASL included; 3s
//	request_timeout    for an answer; 5s. Keep it below the timeout of the sink
//	idle_timeout       after which an unused connection is closed; 30s
//	max_connections    connections to one broker for records; 4. One more asks for
//	                   leaders now and then
//
// A message may have the option "partition", the number of the partition that
// it is to go to.
//
// # How it works
//
// What concurrent Deliver calls have for the partitions of one leader is
// gathered while the request before is under way, and leaves as one request.
// So a lone message leaves at once, and under load requests grow by themselves.
// A partition has one request in flight at most: order within it is kept.
//
// The package encodes and decodes with kafka-go, but has its own connections:
// only so can it tell a request that never left from one whose answer was lost,
// ask for new leaders at the first sign of a move, and ask for no topics but
// its own.
//
// # Classes of errors
//
//	retry          no broker can be reached, or all was left unsent for want of time
//	unknown        a request left and no clear answer came back, or the leader wrote
//	               the records but was deposed before its replicas had them
//	permanent      the broker refuses this record, which was sent alone to be sure,
//	               or it is larger than max_message_bytes, or its partition does
//	               not exist
//	blocked        login, certificates, cluster permission or a setting is refused
//	topic_blocked  the topic is missing or forbidden, or the partition has no
//	               leader or too few replicas: trouble that is no message's fault
//	               and spends no attempt
//
// Records that were certainly not written, as their partition has moved to
// another leader, are sent there within the same Deliver, for up to two seconds.
package kafka
