package core

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// Message is what a producer gave us, together with what the store and the
// engine add to it on its way. It is plain data: copying the struct shares the
// byte slices, maps and headers, and nobody changes those after Accept.
type Message struct {
	// ID names the message within its sink. Empty on the way in: Accept makes
	// one. An ID is to be unique per sink. Used again with other content it is
	// refused as a conflict, or, where another Key puts it into another bucket,
	// it is another message: calls by ID then need the key (see Ref).
	ID string
	// Generated says that ID was made by Accept, not by the producer. Such IDs
	// are not remembered after the message is settled.
	Generated bool

	Sink  string // the configured way out
	Topic string // the address inside the sink: a topic, exchange or queue

	// Key orders and partitions: messages of one sink with the same key share
	// a bucket and leave in order. nil is no key; empty is a key.
	Key []byte
	// Body is passed on byte for byte. nil is a null body where the broker
	// knows one (a Kafka tombstone), and an empty body elsewhere.
	Body    []byte
	Headers []Header
	// Options are for the sink (its documentation lists them), but for those
	// that begin with "retry.", which override the sink's RetryPolicy for this message.
	Options map[string]string

	// DeliverAt is the time before which the message is never delivered, in
	// whole milliseconds. On the way in either it or Delay is set; both zero
	// means at once. The store resolves Delay on its own clock, and a time that
	// has passed becomes the time of acceptance.
	DeliverAt time.Time
	Delay     time.Duration

	// ExpiresAt is the time after which the message becomes a dead letter
	// instead of being delivered; zero is never. On the way in either it or TTL
	// is set; TTL counts from acceptance, as Delay does.
	ExpiresAt time.Time
	TTL       time.Duration

	// Hop is how often the message was delivered before by us and published again by
	// a consumer; zero for what producers publish. It is of use on the way in only: where
	// a way in leaves it zero, Accept finds it out by the headers, and adds HeaderHop.
	Hop int

	Priority int // 0 (default) to MaxPriority; of what is due, higher goes first
	Attempt  int // the try that this is, from 1; set by Take
	// CutOff says that the attempt before was cut off by a crash of its owner,
	// so that this message may be the cause; set by Take.
	CutOff bool
}

// Options in which a message carries, for its consumers, the delay that it came with and
// when it was sent. They are times, and so no part of its content.
const (
	OptionXDelay    = "x_delay"
	OptionTimestamp = "timestamp"
)

// SameContent reports whether both are one message, so that the second with its ID is a
// repeat and not a conflict. Times do not count, as a repeat may have them again.
func SameContent(a, b *Message) bool {
	return a.Topic == b.Topic && a.Priority == b.Priority &&
		sameBytes(a.Key, b.Key) && sameBytes(a.Body, b.Body) &&
		maps.Equal(withoutTimes(a.Options), withoutTimes(b.Options)) &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b Header) bool {
			return a.Name == b.Name && sameBytes(a.Value, b.Value)
		})
}

// sameBytes tells nil from empty.
func sameBytes(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

func withoutTimes(options map[string]string) map[string]string {
	options = maps.Clone(options)
	delete(options, OptionXDelay)
	delete(options, OptionTimestamp)
	return options
}

// MaxPriority is the most urgent Message.Priority.
const MaxPriority = 9

// Header is one name and value. Order and repeats are kept. A nil Value is a
// null value where the broker knows one, and an empty value elsewhere.
type Header struct {
	Name  string
	Value []byte
}

// The headers that every delivered message carries, so that consumers can drop
// repeats and measure lateness. Sinks add them. HeaderHop, which is among the
// message's own, is there if the message was delivered before and published again,
// and says how often. No other header has HeaderPrefix.
const (
	HeaderPrefix    = "delaybridge-"
	HeaderID        = HeaderPrefix + "id"
	HeaderAttempt   = HeaderPrefix + "attempt"
	HeaderDeliverAt = HeaderPrefix + "deliver-at"
	HeaderHop       = HeaderPrefix + "hop"
)

// TimeFormat is how times are written in headers, replies and logs: RFC 3339
// with exactly three fractional digits.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// State says where a message is. Its zero value is not a state.
type State string

// The states of a message; see the picture in the package documentation.
const (
	Scheduled  State = "scheduled"
	Delivering State = "delivering"
	Retrying   State = "retrying"
	Delivered  State = "delivered"
	Dead       State = "dead"
	Expired    State = "expired" // dead because ExpiresAt had passed
	Cancelled  State = "cancelled"
	Discarded  State = "discarded" // it was a dead letter
)

// Settled reports whether a message is gone: of its content nothing is stored.
func (s State) Settled() bool { return s == Delivered || s == Cancelled || s == Discarded }

// When is a due time: At, or After from now on the store's clock when At is
// zero. The zero value is now.
type When struct {
	At    time.Time
	After time.Duration
}

// Ref names one stored message.
type Ref struct {
	ID   string
	Sink string
	// Key is the message's key, if the caller knows it: it leads straight to
	// the bucket and tells apart two messages that share an ID. nil means the
	// message without a key, or else the only one under any.
	Key []byte
}
