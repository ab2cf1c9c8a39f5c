// Package core accepts delayed messages, parks them in a Store and delivers them to a
// Sink when they are due. It imports the standard library only; Redis, the brokers and
// HTTP are behind its interfaces.
//
//	producer ─▶ listener, source ─▶ Interceptor.Accept ─▶ Store.Park ┄┄ parked in buckets ┄┄ Store.Serve
//	                                                                                │ one goroutine per owned Bucket
//	consumer ◀─ broker ◀─ Sink.Deliver ◀─ Dispatcher: Take ─▶ Deliver ─▶ Settle ─▶ Wait
//
// Read in this order: Message, Store and Bucket (the interfaces to durable storage),
// Sink (the interface to a broker), Interceptor (accepts messages), Dispatcher (the
// loop of one sink), Bridge (wires and runs all of it). A program with a bridge inside
// begins with NewBridge; see docs/embedding.md and examples/embedded.
//
// A message has these states; every arrow is one atomic step of the store:
//
//	          park                take                  settle
//	producer ─────▶ scheduled ──────────▶ delivering ──────────▶ delivered
//	                  │   ▲                 │      │
//	           cancel │   │ reschedule      │      └─▶ dead, expired ──redrive──▶ scheduled
//	                  ▼   │                 ▼                 └────discard──▶ discarded
//	              cancelled └──────────── retrying
//
// The delivery contract is in docs/design.md, section "The delivery contract".
package core
