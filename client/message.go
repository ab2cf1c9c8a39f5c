package client

import (
	"math"
	"time"
)

// Now is the delay of what is due at once. It is not zero, so that a time that was left
// out, or a time.Time that was never set, is an error.
const Now time.Duration = math.MinInt64 + 1 // time.Until of the zero time is MinInt64

// Message is a message to deliver later. A zero field is not set. Topic is required, and
// so is one of Delay and DeliverAt. The limits are the bridge's, see its HTTP API.
type Message struct {
	// ID names the message; if it is empty, the client generates one. Set it if another
	// process may publish the message again: a repeat with the same ID and content is a
	// duplicate, and is not delivered twice.
	ID   string
	Sink string // may be empty if the bridge has only one sink
	// Topic is the address in the sink: a topic, exchange or queue.
	Topic string
	// Key selects the partition and keeps order. nil is no key; empty is a key.
	Key []byte
	// Headers are passed on byte for byte, in order, with repeated names.
	Headers []Header
	// Body is passed on byte for byte. nil is a null body where the broker supports one
	// (a Kafka tombstone), otherwise an empty body.
	Body []byte
	// Options are for the sink; its documentation lists them.
	Options map[string]string

	// Delay counts from acceptance, on the bridge's clock, or is Now; DeliverAt is a
	// time, and at once if it is up to a day ago. Set one.
	Delay     time.Duration
	DeliverAt time.Time
	// After TTL from acceptance, or ExpiresAt, the message becomes a dead letter
	// instead of being delivered. Set at most one.
	TTL       time.Duration
	ExpiresAt time.Time

	Priority int // 0 to 9; of due messages, higher leaves first
}

// Header is one name and value. A nil Value is a null value where the broker supports
// one, otherwise an empty value.
type Header struct {
	Name  string
	Value []byte
}

// State is the state of a message.
type State string

// The states of a message.
const (
	Scheduled  State = "scheduled"
	Delivering State = "delivering"
	Retrying   State = "retrying"
	Delivered  State = "delivered"
	Dead       State = "dead"
	Expired    State = "expired"
	Cancelled  State = "cancelled"
	Discarded  State = "discarded" // it was a dead letter
)

// Receipt is the result of a call for one message.
type Receipt struct {
	ID         string
	Sink       string
	State      State
	DeliverAt  time.Time
	Durability string // level of durability: memory, replicated or fsync
	// Duplicate reports that the message was already accepted with this ID; it is
	// stored once.
	Duplicate bool
	// Attempt is the number of attempts made, MayHaveBeenSent reports whether there was
	// one. A message that was cancelled before its first attempt is never delivered.
	Attempt         int
	MayHaveBeenSent bool
}

// Ref names a stored message. ID is required. Sink and Key distinguish messages that
// share an ID, and make the call cheaper if the message has a key; a nil Key is
// unknown.
type Ref struct {
	ID   string
	Sink string
	Key  []byte
}

// When is a time: At, or After from now on the bridge's clock, which may be Now. Set
// one.
type When struct {
	At    time.Time
	After time.Duration
}

// Entry is a stored message. If it was delivered, cancelled or discarded, only ID,
// Sink, State and Due are set.
type Entry struct {
	Message
	Generated bool // the ID was made by the bridge
	State     State
	// Due is when the message will next be tried; for a dead letter, when it became
	// one; for a settled message, when it was settled.
	Due             time.Time
	Attempt         int // attempts made so far
	MayHaveBeenSent bool
	Reason, Error   string // the last failure
	BodySize        int    // also without Body, as in List
}
