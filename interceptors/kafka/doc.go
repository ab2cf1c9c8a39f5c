// Package kafkasource takes delayed messages from topics of Apache Kafka 1.0 or
// newer, as a member of a consumer group. Producers keep their client and say by
// headers when a message is due.
//
// Key, value and headers become those of the message, byte for byte, with order,
// repeats and nulls; headers about scheduling are taken off. An offset is
// committed when all records before it are parked or rejected. A record that is
// read again (after a crash, a rebalance, a lost commit) has the same ID and is
// parked once. Records of aborted transactions are left out.
//
// Topics and partitions may come to be at any time and are read some seconds
// later. One that does not exist is not made by the source, and keeps no other from
// being read.
//
// # Settings
//
// Besides those of package source, whose dialects are native, cloudevents,
// etf1, timebridge and spring by default:
//
//	brokers          host:port of one or more brokers to begin with; required
//	topics           to read from; required
//	group            the consumer group; delaybridge
//	start            where to begin in a partition of which the group has no offset,
//	                 or one that is beyond its end: earliest (default) or latest.
//	                 Partitions that come to be later are read as a whole
//	reject_topic     where records go that can't be parked; required unless
//	                 on_bad_record is stop or skip
//	batch            records that are parked at once, 1 to 500; 500
//	fetch_bytes      how much to ask for at once, of each partition; 1048576
//	max_batch_bytes  the largest batch of records that is read, compressed and
//	                 uncompressed, and the largest window of zstd, which may have
//	                 8 MiB in any case; 67108864. A larger one is rejected as a whole,
//	                 by what it declares if that says so
//	buffer_bytes     of what is fetched and waits to be parked, of all partitions of
//	                 this instance together; 134217728. What was compressed may take
//	                 as much again, and one batch larger than 4 MiB at a time may take
//	                 max_batch_bytes besides. What is larger than all of it passes
//	                 alone. Partitions that wait are served in turn
//	session_timeout  after which the group gives up on a member that has gone
//	                 silent; 10s
//	client_id, tls, sasl, dial_timeout, request_timeout
//	                 as those of the Kafka sink
//
// # Logs that are not what they were
//
// When a topic is deleted and recreated, or an unclean election has cut a log, offsets
// are given again. So the ID of a message is made of the topic's ID, the epoch of the
// leader, timestamp, and a checksum of key, value and headers besides: another record
// at the same offset is another message. Records are asked for by the topic's ID, and
// that is committed with each offset, as metadata: so an offset of an older topic
// of the same name is not taken for one of the new topic, also if the source was
// stopped meanwhile. A topic that is deleted or recreated while an instance runs is read
// from its beginning by that instance, whatever start says. But Kafka deletes the group's
// offsets together with the topic. If it was recreated before an instance started, that
// one can't tell it from a topic that the group has never read, and start decides: with
// "latest" what was written before the instance has begun to read is left out. With
// "earliest", the default, nothing is. Where a log was cut, reading continues
// at the cut, with what took the place of the lost records. All of that is logged as
// an error, and messages of lost records stay parked.
//
// That takes Kafka 3.1 on all brokers. With older ones, a topic that is missing, or a
// partition that ends before the next record, is noticed, and the source joins the
// group again; it continues at the offset that the group still has, which Kafka deletes
// together with the topic. If that is none, or beyond the end, too, start decides, as
// with other clients of Kafka: "earliest" reads all that is there again, and what was
// parked so long ago that its ID is forgotten is parked again; "latest" leaves it out.
// Not noticed is a topic or an election after which there are more records already
// than were read: the first of them, up to the offset, are then left out. When brokers
// are upgraded to 3.1, what was parked and not committed just then gets another ID and
// is parked again.
//
// Records that were removed before they were read, as they were too old, are left
// out, and logged.
//
// # Rejected records
//
// A record in the reject topic has the key, the value and all headers that it
// came with, and these besides: delaybridge-reject-reason, and
// delaybridge-source-topic, -source-partition and -source-offset. What of it is too
// large for the reject topic is left out, and named in delaybridge-reject-left-out:
// value, or key,value,headers. A value is left out at once if the record is larger
// than 16 MiB, and headers if they are more than 1024 (or than max_headers allows,
// if that is more). For a batch that is too large to be read there is one record
// without key and value, and delaybridge-source-last-offset.
//
// # How it works
//
// Each partition has a connection to its leader, on which the next records are
// fetched while those before are parked. The package decodes record batches
// itself, as only so their size stays bounded and aborted records can be told. An
// answer for which there is no room stays with the broker.
// While the store fails the same records are tried again, ever slower, and
// nothing is fetched beyond what is in flight.
package kafkasource
