// Package kafka delivers messages to Apache Kafka 1.0 or newer.
//
// The topic of a message is the Kafka topic; its key, body and headers become those of
// the record, byte for byte: headers keep their order and repeats, and a nil key, body
// or header value is a null on the wire (a null body is a tombstone). The record's
// timestamp is the time of sending. Every record is acknowledged by all in-sync
// replicas before it counts as delivered.
//
// # Settings
//
//	brokers            host:port of one or more brokers to begin with; required
//	client_id          client name in the brokers' logs and quotas; delaybridge
//	acks               "all", the only value: with less, delivered messages could be lost
//	compression        none (default), gzip, snappy, lz4 or zstd
//	partitioner        murmur2, the only value: as the Java client. Without a key,
//	                   each batch goes to one partition, in turn
//	tls                an object turns TLS on: ca, cert and key are files in PEM,
//	                   server_name replaces the broker's host name in the check of
//	                   its certificate, insecure_skip_verify leaves that check out
//	sasl               mechanism (plain, scram-sha-256, scram-sha-512), username, password
//	max_message_bytes  the topics' max.message.bytes; 1048588, as Kafka's default.
//	                   A message that can't fit is refused when it is accepted
//	metadata_ttl       how long the leaders of a topic, or that it is missing, are
//	                   cached; 1s
//	dial_timeout       for a connection, TLS and SASL included; 3s
//	request_timeout    for an answer; 5s. Keep it below the timeout of the sink
//	idle_timeout       after which an unused connection is closed; 30s
//	max_connections    connections to one broker for records; 4. One more is used for
//	                   metadata
//
// A message may have the option "partition", the number of its partition.
//
// # How it works
//
// Records of concurrent Deliver calls for the partitions of one leader are collected
// while the previous request is in progress, and are sent as one request. So a single
// message is sent at once, and under load requests become larger. A partition has one
// request in flight at most: order within it is kept.
//
// The package encodes and decodes with kafka-go, but has its own connections, to
// distinguish a request that was never sent from one whose answer was lost, to refresh
// the leaders at the first sign of a move, and to request metadata of its own topics
// only.
//
// # Classes of errors
//
//	retry          no broker can be reached, or time ran out before the request was sent
//	unknown        a request was sent without a definite answer, or the leader wrote
//	               the records but was deposed before its replicas had them
//	permanent      the broker refuses this record, also when sent alone,
//	               or it is larger than max_message_bytes, or its partition does
//	               not exist
//	blocked        login, certificates, cluster permission or a setting is refused
//	topic_blocked  the topic is missing or forbidden, or the partition has no
//	               leader or too few in-sync replicas; no attempt is spent
//	               and spends no attempt
//
// Records that were not written because their partition has moved to another leader are
// sent there within the same Deliver, for up to two seconds.
package kafka
