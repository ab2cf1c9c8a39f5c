// Package core is delaybridge without its edges: it accepts delayed messages,
// has them parked, and delivers them when they are due. It knows no Redis, no
// broker and no HTTP; it imports the standard library only.
//
//	producer ─▶ listener, source ─▶ Interceptor.Accept ─▶ Store.Park ┄┄ parked in buckets ┄┄ Store.Serve
//	                                                                                │ one goroutine per owned Bucket
//	consumer ◀─ broker ◀─ Sink.Deliver ◀─ Dispatcher: Take ─▶ Deliver ─▶ Settle ─▶ Wait
//
// Read in this order: Message (what a producer gives us), Store and Bucket (the
// edge to durable storage), Sink (the edge to a broker), Interceptor (the way
// in), Dispatcher (the loop of one sink), Bridge (starts and joins all of it).
//
// A message moves through these states; every arrow is one atomic step of the
// store:
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
