// Package source has the common parts of the sources: the rules for a record's target
// and ID and for refusing it, and the loop that parks records so that none is lost or
// parked twice. It is independent of brokers.
//
// # Settings
//
// A source embeds Config, so that every source has these keys in addition to its own:
//
//	dialects              whose headers set when a message is due, of those in
//	                      package dialect; each source has its own default
//	sink                  of the messages; required unless headers may set it
//	topic                 of the messages; "{topic}" stands for the topic that
//	                      they were read from. Required unless headers may set it
//	trim_suffix           is removed from the value of "{topic}", so that
//	                      orders.delayed can become orders. A topic without it is
//	                      refused
//	allow_target_headers  false; true lets headers set a sink and a topic other
//	                      than these. Whoever can write to the source can then
//	                      write to every topic that the sinks can
//	untagged              handling of a message without a time: "reject"
//	                      (default), "now" for at once, or "delay"
//	default_delay         of an untagged message, with untagged: delay
//	delay_from            start of delays, also of default_delay:
//	                      "acceptance" (default), when the message is
//	                      parked, or "record", see below
//	allow_topics          allows topics that are reserved for a broker (see
//	                      Denied): a list of names, in which a "*" at the end
//	                      stands for anything
//	allow_loop            false; true allows a target that this source reads,
//	                      which is a loop unless it is on another broker
//	on_bad_record         handling of a record that can't be parked: "reject" writes
//	                      it to the reject target of the source, and is the default if
//	                      there is one. Without one it must be set: "stop" stops
//	                      this source, which then stays stopped until the bridge is
//	                      restarted, while everything else continues; "skip" logs the record
//	                      at level warn, counts it and skips it permanently
//
// A header that sets the same target is always allowed. A key in a header replaces the
// record's.
//
// # IDs
//
// The ID is the producer's own if a header has one. Otherwise it is formed from the name
// of the source and the record's position, such as
// k:orders:orders.delayed:0:1234:5f0c81d2a90be743, where the last part distinguishes
// records that had the same offset in a log that no longer exists. So a record that is
// read again is parked once. Records that are read again after the source was renamed are
// parked again. To cancel a message, set its ID.
//
// A record whose ID was accepted before is skipped: it was read twice, or the producer
// has sent the ID twice. It is logged, and counted as a duplicate in stats.
//
// The ID of a delivered message is remembered for dedupe_window, 2 minutes by default.
// If all instances are killed after a record was delivered and before it was committed,
// and it is read again later than that, it is delivered twice. Make the sink's
// dedupe_window longer than all instances may be down.
//
// # Times
//
// A delay counts from when the message is parked, on the store's clock: it is never
// shorter than requested, but a source that is an hour behind adds an hour. With
// delay_from: record it counts from when the record was written, and a message whose
// time has already passed is due at once. That time is, in Kafka, on the producer's
// clock, or on the broker's if the topic has message.timestamp.type=LogAppendTime; in
// RocketMQ on the broker's clock; in RabbitMQ the property timestamp that the producer
// has set, which has whole seconds and counts as their end. A clock that is behind
// makes delays shorter by as much, and so do programs that write records with old
// timestamps, such as Kafka Streams. For a record without a time, or with one in the
// future, a delay counts from when it is parked.
//
// The limit max_past applies to the time when the record was written, not when it is
// read: a delivery time that has passed since then is always accepted, and the message
// is due at once.
package source
