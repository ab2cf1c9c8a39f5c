// Package kafkadoor takes delayed messages from topics of Apache Kafka 1.0 or
// newer, as a member of a consumer group. Producers keep their client and say by
// headers when a message is due.
//
// Key, value and headers become those of the message, byte for byte, with order,
// repeats and nulls; headers about scheduling are taken off. An offset is
// committed when all records before it are parked or rejected. A record that is
// read again (after a crash, a rebalance, a lost commit) has the same ID and is
// parked once. Records of aborted transactions are left out. A topic that is
// deleted and made anew begins with offsets that were there before: while
// messages of the old one are parked, give the intake another name.
//
// Topics and partitions may come to be at any time and are read some seconds
// later. One that does not exist is not made by the intake, and keeps no other from
// being read.
//
// # Settings
//
// Besides those of package intake, whose dialects are native, cloudevents,
// etf1, timebridge and spring by default:
//
//	brokers          host:port of one or more brokers to begin with; required
//	topics           to read from; required
//	group            the consumer group; delaybridge
//	start            where to begin in a partition of which the group has no offset:
//	                 earliest (default) or latest
//	reject_topic     where records go that can't be parked. Without it the first such
//	                 record ends the bridge with an error, as going on would lose it
//	batch            records that are parked at once, 1 to 500; 500
//	fetch_bytes      how much to ask for at once, of each partition; 1048576
//	max_batch_bytes  the largest batch of records that is read, compressed and
//	                 uncompressed; 67108864. A larger one is rejected as a whole
//	session_timeout  after which the group gives up on a member that has gone
//	                 silent; 10s
//	client_id, tls, sasl, dial_timeout, request_timeout
//	                 as those of the Kafka sink
//
// # Rejected records
//
// A record in the reject topic has the key, the value and all headers that it
// came with, and these besides: delaybridge-reject-reason, and
// delaybridge-source-topic, -source-partition and -source-offset. One that is too
// large for the reject topic comes without its value and with
// delaybridge-reject-left-out: value. For a batch that is too large to be read
// there is one record without key and value, and delaybridge-source-last-offset.
//
// # How it works
//
// Each partition has a connection to its leader, on which the next records are
// fetched while those before are parked. The package decodes record batches
// itself, as only so their size stays bounded and aborted records can be told.
// While the store fails the same records are tried again, ever slower, and
// nothing is fetched beyond what is in hand.
package kafkadoor
