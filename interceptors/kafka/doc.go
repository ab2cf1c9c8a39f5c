// Package kafkasource reads delayed messages from topics of Apache Kafka 1.0 or newer,
// as a member of a consumer group. Producers keep their client and set in headers when
// a message is due.
//
// Key, value and headers become those of the message, byte for byte, with order,
// repeated names and nulls; headers about scheduling are removed. An offset is
// committed when all records before it are parked or rejected. A record that is read
// again (after a crash, a rebalance, a lost commit) has the same ID and is parked once.
// Records of aborted transactions are skipped.
//
// Topics and partitions may be created at any time and are read some seconds later. The
// source does not create missing topics, and continues to read the others.
//
// # Settings
//
// In addition to those of package source, whose dialects are native, cloudevents, etf1,
// timebridge and spring by default:
//
//	brokers          host:port of one or more brokers to begin with; required
//	topics           to read from; required
//	group            the consumer group; delaybridge
//	start            where to start in a partition for which the group has no offset,
//	                 or one beyond its end: earliest (default) or latest.
//	                 Partitions that are created later are read from the beginning
//	reject_topic     topic for records that can't be parked; required unless
//	                 on_bad_record is stop or skip
//	batch            records that are parked at once, 1 to 500; 500
//	fetch_bytes      of one fetch, for each partition; 1048576
//	max_batch_bytes  the largest batch of records that is read, compressed and
//	                 uncompressed, and the largest zstd window, for which
//	                 8 MiB are always allowed; 67108864. A larger batch is rejected as
//	                 a whole, by its declared size if that is too large
//	buffer_bytes     of fetched data that waits to be parked, for all partitions of
//	                 this instance together; 134217728. Decompressed data may need
//	                 as much again, and one batch larger than 4 MiB at a time may need
//	                 max_batch_bytes in addition. Data larger than all of it passes
//	                 alone. Partitions that wait are served in turn
//	session_timeout  after which the group removes a member that does not
//	                 respond; 10s
//	client_id, tls, sasl, dial_timeout, request_timeout
//	                 as those of the Kafka sink
//
// # Recreated topics and truncated logs
//
// When a topic is deleted and recreated, or an unclean election has truncated a log,
// offsets are reused. So the ID of a message is also formed from the topic's ID, the
// leader epoch, the timestamp, and a checksum of key, value and headers: another record
// at the same offset is another message. Records are fetched by the topic's ID, which is
// committed with each offset as metadata. So an offset of an older topic of the same name
// is not used for the new topic, even if the source was stopped meanwhile. An instance
// that runs while a topic is recreated reads the new topic from its beginning, regardless
// of start. But Kafka deletes the group's offsets together with the topic. If the topic
// was recreated before an instance started, the instance can't distinguish it from a
// topic that the group has never read, and start decides: with "latest", records written
// before the instance began to read are skipped; with "earliest", the default, none are.
// In a truncated log, reading continues where it was truncated, with the records that
// replaced the lost ones. All of that is logged as an error, and messages of lost records
// stay parked.
//
// This requires Kafka 3.1 on all brokers. With older brokers, the source detects only a
// missing topic, or a partition that ends before the next record. It then joins the
// group again and continues at the group's offset, which Kafka deletes together with
// the topic. If there is no offset, or it is beyond the end, start decides, as with
// other Kafka clients: "earliest" reads all records again, and parks again those whose
// ID is no longer remembered; "latest" skips them. A recreated topic or truncated log
// that already has more records than were read is not detected: its records up to the
// offset are skipped. When brokers are upgraded to 3.1, records parked but not yet
// committed get another ID and are parked again.
//
// Records that Kafka has removed by retention before they were read are skipped, which
// is logged.
//
// # Rejected records
//
// A record in the reject topic has its original key, value and headers, and in addition
// delaybridge-reject-reason, and delaybridge-source-topic, -source-partition and
// -source-offset. Parts that are too large for the reject topic are left out, and named
// in delaybridge-reject-left-out: value, or key,value,headers. The value is always left
// out if the record is larger than 16 MiB, and the headers if they are more than 1024
// (or than max_headers allows, if that is more). A batch that is too large to be read
// is rejected as one record without key and value, with delaybridge-source-last-offset.
//
// # How it works
//
// Each partition has a connection to its leader, on which the next records are fetched
// while the previous ones are parked. The package decodes record batches itself, to
// bound their size and to recognize aborted records. An answer is read only when there
// is room in the buffer. While the store fails, the same records are retried with
// growing pauses, and nothing more is fetched.
package kafkasource
