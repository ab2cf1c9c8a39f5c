package core

import (
	"context"
	"errors"
	"time"
)

// Store keeps messages until they are due. Its clock alone decides what is due, when a
// lease ends and what "now" means. All methods are safe for concurrent use.
// core/storetest has the test suite that every Store passes; core/memstore is the
// reference implementation. A Store may also implement Inspector, Fleet, HealthChecker and
// a method Durability() string, which returns the level at which Park accepts; see
// Ability.
//
// Errors: Park, Cancel, Reschedule, Redrive and Discard return an error that wraps
// ErrUnavailable when nothing was changed, and one that wraps ErrUnknown when the
// change may or may not have been made; repeating the same call with the same ID is
// then safe. A call has no effect after it has returned such an error, and never undoes
// a later call that has returned.
type Store interface {
	// Park stores messages durably, each independently, and returns one Receipt per
	// message, in order. It sets the ID of a message whose Generated is set. A refused
	// message has Receipt.Err set: ErrConflict, ErrCancelled, ErrUnavailable or ErrUnknown.
	// Once Park has returned, this call can't store anything more; so it may return some
	// seconds after ctx has ended. Messages of one key are stored in the order of the call.
	// The messages must have passed Limits.Check; the store keeps no reference to them.
	Park(ctx context.Context, messages ...*Message) []Receipt

	// Get returns the message and its state. A ref without a Key means the message
	// without a key if one is stored, else the only message with this ID. ErrNotFound:
	// neither stored nor remembered. ErrAmbiguous: the ID is stored under two keys, and
	// not without a key; set Ref.Key. The Entry of a settled message that is remembered
	// has no body.
	Get(ctx context.Context, ref Ref) (Entry, error)

	// Cancel withdraws a waiting message. If Receipt.Attempt is 0, it was never passed
	// to a sink and never will be; otherwise an earlier attempt may have delivered it.
	// ErrTooLate: it is being delivered or is already settled (see Receipt.State).
	// ErrNotFound, ErrAmbiguous as in Get.
	Cancel(ctx context.Context, ref Ref) (Receipt, error)

	// Reschedule changes when a waiting message is due; errors as for Cancel. It keeps
	// the number of attempts.
	Reschedule(ctx context.Context, ref Ref, when When) (Receipt, error)

	// Redrive makes a dead letter due at once, with no attempts spent and no expiry.
	// ErrTooLate: the message is stored but not dead. Other errors as for Cancel.
	Redrive(ctx context.Context, ref Ref) (Receipt, error)

	// Discard removes a dead letter permanently; errors as for Redrive.
	Discard(ctx context.Context, ref Ref) (Receipt, error)

	// Serve acquires leases on buckets of one sink and calls work for each bucket that
	// this instance owns, in a separate goroutine. The context of work ends when the
	// bucket has to be released. Its cause is ErrLeaseLost if another instance may own
	// the bucket already; with any other cause there is time to settle what is in
	// flight. Serve returns when ctx has ended, every work has returned and every
	// bucket has been handed over. If work returns an error, it is called again while
	// the bucket is owned. Messages that a lost owner or a failed work left in flight
	// were cut off: they spend that attempt, with the reason "crashed", and are taken
	// again with CutOff set. attempts.go lists when else an attempt is spent.
	Serve(ctx context.Context, sink string, work func(ctx context.Context, b Bucket) error) error

	// Close releases the store's resources. Call it after every Serve has returned.
	Close() error
}

// Bucket is one owned shard of one sink's timer. Its methods are called from one
// goroutine, that of work. Each may return ErrLeaseLost; it then has done nothing, and
// the Bucket must not be used any more.
type Bucket interface {
	// Take returns up to max (1 to MaxTake) due messages in the order of delivery. They
	// are in flight until the next Settle, which must be called before the next Take;
	// until then Cancel returns ErrTooLate for them. Take removes nothing.
	Take(ctx context.Context, max int) (Batch, error)

	// Settle records the outcomes of the messages in flight. Messages without an
	// Outcome are put back unchanged. After an error other than ErrLeaseLost some may
	// be settled: repeat the same call until it succeeds. Settle is idempotent.
	Settle(ctx context.Context, outcomes ...Outcome) error

	// Wait blocks until a message may be due: the time next has come on the store's
	// clock (zero is unknown), an earlier message was parked, or a guard period of some
	// seconds is over. It returns an error only if ctx has ended.
	Wait(ctx context.Context, next time.Time) error

	// String returns the bucket's name in logs: sink and number.
	String() string
}

// MaxTake is the maximum number of messages of one Take and one Settle.
const MaxTake = 500

// Batch is the result of one Take.
type Batch struct {
	Messages []*Message
	// Now is the time of the take on the store's clock.
	Now time.Time
	// Local is the same moment on the clock of this process, or somewhat earlier, so
	// that lateness measured from it is never too small. Zero is unknown.
	Local time.Time
	// Next is when the next message is due: not after Now if more messages are due
	// already, zero if nothing is parked.
	Next time.Time
}

// Outcome is the result of the attempt for one message in flight.
type Outcome struct {
	ID string
	// State is Delivered, Retrying, Dead or Expired.
	State State
	// After, for Retrying, is how long from now until the message is due again.
	After time.Duration
	// Attempts is how many attempts have been spent in total; not used for Delivered.
	Attempts int
	// Reason is the cause in one word, and Error its text (at most MaxErrorText bytes
	// are stored); for Retrying, Dead and Expired.
	Reason, Error string
}

// MaxErrorText is the maximum number of bytes stored of an error's text.
const MaxErrorText = 512

// Receipt is the store's answer about one message.
type Receipt struct {
	ID        string
	Sink      string
	State     State
	DeliverAt time.Time
	// Duplicate reports that Park found the same message stored, or remembered as
	// settled.
	Duplicate bool
	// Attempt is the number of attempts made so far.
	Attempt int
	// Durability is the level reached when the store answered.
	Durability string
	// Err is why Park refused this message; nil if it is parked.
	Err error
}

// Entry is a stored message with its state, for people to inspect.
type Entry struct {
	// Message is never nil. For a settled message that is only remembered, it has ID
	// and Sink only. List omits bodies.
	Message *Message
	State   State
	// Reason and Error describe the last failure, if any.
	Reason, Error string
	// Due is when the message will next be tried; for a dead letter, when it became
	// one; for a settled message, when it was settled.
	Due time.Time
	// BodySize is the length of the body in bytes, also if Message has no body.
	BodySize int
	// MayHaveBeenSent reports whether an attempt has been made.
	MayHaveBeenSent bool
}

// Errors of a Store, for errors.Is.
var (
	// ErrNotFound: no such message is stored or remembered.
	ErrNotFound = errors.New("no such message")
	// ErrTooLate: the message is being delivered or already settled.
	ErrTooLate = errors.New("too late")
	// ErrConflict: the ID is used by a message with other content.
	ErrConflict = errors.New("id is used by a message with other content")
	// ErrCancelled: the ID is that of a message that was cancelled within the
	// deduplication window. It wraps ErrConflict.
	ErrCancelled error = &wrapped{"a message with this id was cancelled a short time ago", ErrConflict}
	// ErrAmbiguous: the ID is stored under two keys, or in two sinks.
	ErrAmbiguous = errors.New("id names two messages; give the key or the sink")
	// ErrBadCursor: the cursor was not returned for this Query; start again.
	ErrBadCursor = errors.New("cursor is not valid for this query")
	// ErrUnavailable: nothing was changed; try again later.
	ErrUnavailable = errors.New("store unavailable, nothing was changed")
	// ErrFull: nothing was changed, because the store lacks memory or disk space. It
	// wraps ErrUnavailable.
	ErrFull error = &wrapped{"store is full, nothing was changed", ErrUnavailable}
	// ErrUnknown: the change may or may not have been made; repeat with the same ID.
	ErrUnknown = errors.New("outcome unknown; repeating with the same id is safe")
	// ErrLeaseLost: another instance owns the bucket, or may own it soon.
	ErrLeaseLost = errors.New("lease of the bucket lost")
)

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.err }
