// Package source is what the sources have in common:
// where a record goes, what of it is refused, which ID it gets, and the loop
// that parks records so that none is lost or parked twice. It knows no broker.
//
// # Settings
//
// A source embeds Config, so that every source has these keys besides its own:
//
//	dialects              whose headers say when a message is due, of those in
//	                      package dialect; each source has its own default
//	sink                  that messages go to; needed unless headers may name it
//	topic                 that messages go to; "{topic}" stands for the topic that
//	                      they came from. Needed unless headers may name it
//	trim_suffix           is taken off what "{topic}" stands for, so that
//	                      orders.delayed can become orders. A topic without it is
//	                      refused
//	allow_target_headers  false; true lets headers name a sink and a topic other
//	                      than these. Whoever can write to the source can then
//	                      write to every topic that the sinks can
//	untagged              what becomes of a message without a time: "reject"
//	                      (default), "now" for at once, or "delay"
//	default_delay         of an untagged message, with untagged: delay
//	delay_from            what a delay counts from, that of default_delay, too:
//	                      "acceptance" (default), which is when the message is
//	                      parked, or "record", see below
//	allow_topics          lifts the refusal of what belongs to a broker itself (see
//	                      Denied): a list of names, in which a "*" at the end
//	                      stands for anything
//	allow_loop            false; true allows a target with the name of a source,
//	                      which is a loop unless it is another broker's
//	on_bad_record         what becomes of a record that can't be parked: "reject" writes
//	                      it to the reject target of the source, and is the default if
//	                      there is one. Without one it has to be chosen: "stop" stops
//	                      this source, which then stays stopped until the bridge is
//	                      started again, while all else continues; "skip" logs the record
//	                      at level warn, counts it and leaves it out permanently
//
// A header that names what would be the target anyway is always allowed. A key
// in a header replaces the record's.
//
// # IDs
//
// The ID is the producer's own if a header has one, and else is made of the
// name of the source and the record's position, such as
// k:orders:orders.delayed:0:1234:5f0c81d2a90be743, where the end tells the record from
// others that had the same offset in a log that no longer exists. So a record that is read
// again is parked once, and a source that is given another name begins again. Who is
// to cancel a message gives it an ID.
//
// A record whose ID was accepted before is passed over: it is read again, or the
// producer has sent the ID twice. The log says so, and stats count it under
// duplicates.
//
// Of a message that has been delivered the ID is remembered for dedupe_window, 2
// minutes by default. A record that was delivered, was not committed because all
// instances were killed, and is read again later than that is delivered twice.
// Make the sink's dedupe_window longer than all instances may be down.
//
// # Times
//
// A delay counts from when the message is parked, by the store's clock: never is it
// shorter than asked for, but a source that is an hour behind adds an hour. With
// delay_from: record it counts from when the record was written, and a message
// whose time has come by then is due at once. Kafka reports that by the producer's
// clock, or the broker's where the topic has message.timestamp.type=LogAppendTime;
// RocketMQ by the broker's; RabbitMQ by what the producer has put into the property
// timestamp, which has whole seconds and counts as their end. A clock that is
// behind makes delays shorter by as much, and so do programs that write records
// with times of old, as Kafka Streams does. A record without a time, or with one
// that is still to come, counts from when it is parked.
//
// A time that was to come, or
// not more than the limit max_past ago, when the record was written, may have
// passed by any measure when it is read: the message is then due at once.
package source
