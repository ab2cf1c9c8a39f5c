package client

import "time"

// Message is what is to be delivered later. The zero value of a field means that
// it is not given; only Topic is always needed. The limits are the bridge's, see
// its HTTP API.
type Message struct {
	// ID names the message; one is made if it is empty. Give one if you may have
	// to publish again, in another process say: a repeat with the same ID and
	// content is a duplicate, and is not delivered twice.
	ID   string
	Sink string // may be empty where the bridge has one sink only
	// Topic is the address inside the sink: a topic, exchange or queue.
	Topic string
	// Key orders and partitions. nil is no key; empty is a key.
	Key []byte
	// Headers are passed on byte for byte, in order, repeats kept.
	Headers []Header
	// Body is passed on byte for byte. nil is a null body where the broker knows
	// one (a Kafka tombstone), and an empty one elsewhere.
	Body []byte
	// Options are for the sink; its documentation lists them.
	Options map[string]string

	// Delay counts from acceptance, on the bridge's clock; DeliverAt is a time.
	// At most one is given. With neither, the message is due at once, and so it
	// is if DeliverAt has passed, up to a day ago.
	Delay     time.Duration
	DeliverAt time.Time
	// After TTL from acceptance, or ExpiresAt, the message becomes a dead letter
	// instead of being delivered. At most one is given.
	TTL       time.Duration
	ExpiresAt time.Time

	Priority int // 0 to 9; of what is due, higher goes first
}

// Header is one name and value. A nil Value is a null where the broker knows
// one, and an empty value elsewhere.
type Header struct {
	Name  string
	Value []byte
}

// State says where a message is.
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

// Receipt says how a message stands after a call.
type Receipt struct {
	ID         string
	Sink       string
	State      State
	DeliverAt  time.Time
	Durability string // what it is kept at: memory, replicated, fsync
	// Duplicate says that the ID was known already: the message is stored once.
	Duplicate bool
	// Attempt is how many attempts were made, MayHaveBeenSent whether one was. A
	// message that was cancelled without one is never delivered.
	Attempt         int
	MayHaveBeenSent bool
}

// Ref names a stored message. ID is needed. Sink and Key tell apart messages
// that share an ID, and make the call cheaper where the message has a key; a nil
// Key is unknown.
type Ref struct {
	ID   string
	Sink string
	Key  []byte
}

// When is a time: At, or After from now on the bridge's clock. At most one is
// given; the zero value is now.
type When struct {
	At    time.Time
	After time.Duration
}

// Entry is a stored message. Of one that was delivered, cancelled or discarded
// only ID, Sink, State and Due are known.
type Entry struct {
	Message
	Generated bool // the ID was made by the bridge
	State     State
	// Due is when it will next be tried; for a dead letter when it died, for a
	// settled message when it was settled.
	Due             time.Time
	Attempt         int // attempts made so far
	MayHaveBeenSent bool
	Reason, Error   string // the last failure
	BodySize        int    // List gives no Body
}
