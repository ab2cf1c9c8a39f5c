package core

import (
	"context"
	"errors"
	"time"
)

// Store keeps messages until they are due. It alone decides about time: what
// is due, when a lease ends and what "now" means are read from its clock.
// All methods are safe for concurrent use. core/storetest holds the suite that
// every Store passes, and core/memstore is the readable specification. What a
// Store may be able to do besides is Inspector, HealthChecker and a method
// Durability() string, which names the level at which Park accepts; Ability finds
// it, also behind a wrapper.
//
// Errors: Park, Cancel, Reschedule, Redrive and Discard return an error that
// wraps ErrUnavailable when nothing was changed, and one that wraps ErrUnknown
// when the change may or may not have been made; repeating the same call with
// the same ID is then safe. A call has no effect after such an answer, and never
// undoes one that was sent after it and answered.
type Store interface {
	// Park makes messages durable, each alone, and returns one Receipt for each
	// in order. It makes the ID of a message whose Generated is set. A message that
	// is refused has Receipt.Err set: ErrConflict, ErrCancelled, ErrUnavailable or
	// ErrUnknown; after that answer, it can't come to be stored by this call any more
	// unless it is stored already. So Park may return some seconds after ctx has ended.
	// Messages of one key are stored in the order of the call. The messages must have passed Limits.Check; the store keeps no reference to them.
	Park(ctx context.Context, messages ...*Message) []Receipt

	// Get returns the message and its state. A ref without a Key means the message
	// without a key if one is stored, else the only one under any key.
	// ErrNotFound: neither stored nor remembered. ErrAmbiguous: the ID is stored
	// under two keys, and not without one; set Ref.Key. A settled message that is
	// remembered has an Entry without a body.
	Get(ctx context.Context, ref Ref) (Entry, error)

	// Cancel withdraws a message that waits. If Receipt.Attempt is 0 it was
	// never handed to a sink and never will be; otherwise an earlier attempt
	// may have delivered it. ErrTooLate: it is being delivered, or is settled
	// already (Receipt.State says which). ErrNotFound, ErrAmbiguous as in Get.
	Cancel(ctx context.Context, ref Ref) (Receipt, error)

	// Reschedule changes when a waiting message is due; errors as for Cancel.
	// The number of attempts stays.
	Reschedule(ctx context.Context, ref Ref, when When) (Receipt, error)

	// Redrive makes a dead letter due at once, with no attempts spent and no
	// expiry. ErrTooLate: it is stored but not dead. Otherwise as Cancel.
	Redrive(ctx context.Context, ref Ref) (Receipt, error)

	// Discard removes a dead letter permanently; errors as for Redrive.
	Discard(ctx context.Context, ref Ref) (Receipt, error)

	// Serve takes part in the delivery of one sink: it runs work in a goroutine
	// of its own for each bucket that this instance comes to own. The context
	// of work ends when the bucket is wanted back; its cause is then
	// ErrLeaseLost if another instance may own the bucket already, and
	// anything else if there is time to settle what is in flight. Serve returns
	// when ctx has ended, every work has returned and every bucket has been
	// handed over. A work that returns an error is run again while the bucket
	// is owned. What an owner that is gone, or a work that has failed, left in
	// flight was cut off: it spends that attempt, with the reason "crashed", and
	// comes again with CutOff. See attempts.go for what else an attempt costs.
	Serve(ctx context.Context, sink string, work func(ctx context.Context, b Bucket) error) error

	// Close releases what the store holds. Call it after every Serve returned.
	Close() error
}

// Bucket is one owned shard of one sink's timer. Its methods are called by one
// goroutine, the owner's. Each may return ErrLeaseLost, after which the
// bucket is useless, and then did nothing.
type Bucket interface {
	// Take reads up to max (1 to MaxTake) due messages in the order in which
	// they leave. They are in flight until the next Settle, which must come
	// before the next Take; until then Cancel answers ErrTooLate for them.
	// Nothing is removed.
	Take(ctx context.Context, max int) (Batch, error)

	// Settle reports what became of the messages in flight. Those without an
	// Outcome go back untouched. After an error, other than ErrLeaseLost, some
	// may be settled: the same call is to be repeated until it succeeds. Settling
	// again does no harm.
	Settle(ctx context.Context, outcomes ...Outcome) error

	// Wait blocks until something may be due: the time next has come on the
	// store's clock (zero is unknown), an earlier message was parked, or a
	// guard period of seconds is over. It returns an error only when ctx ended.
	Wait(ctx context.Context, next time.Time) error

	// String names the bucket in logs: sink and number.
	String() string
}

// MaxTake bounds how many messages one Take returns and one Settle settles.
const MaxTake = 500

// Batch is what one Take found.
type Batch struct {
	Messages []*Message
	// Now is the store's clock when it looked.
	Now time.Time
	// Local is when that was by the clock of this process, as well as the store
	// knows, and not later: what is measured from there must not look better than
	// it is. Zero is unknown.
	Local time.Time
	// Next is when the next message is due: not after Now if more is due
	// already, zero if nothing is parked.
	Next time.Time
}

// Outcome is what became of one message in flight.
type Outcome struct {
	ID string
	// State is Delivered, Retrying, Dead or Expired.
	State State
	// After is, for Retrying, how long from now until the message is due again.
	After time.Duration
	// Attempts is, but for Delivered, how many attempts have been spent. It is
	// a total, so that settling twice does no harm.
	Attempts int
	// Reason is the cause in one word, and Error its text (at most
	// MaxErrorText bytes are kept); for Retrying, Dead and Expired.
	Reason, Error string
}

// MaxErrorText is how many bytes of an error's text are stored.
const MaxErrorText = 512

// Receipt is the store's answer about one message.
type Receipt struct {
	ID        string
	Sink      string
	State     State
	DeliverAt time.Time
	// Duplicate: Park found the same message there already, or remembers that
	// it was settled.
	Duplicate bool
	// Attempt is how many attempts have been made so far.
	Attempt int
	// Durability is the level that held when the store answered.
	Durability string
	// Err is why Park refused this message; nil if it is parked.
	Err error
}

// Entry is a stored message as people look at it.
type Entry struct {
	// Message is never nil. For a settled message that is only remembered it
	// has the ID and Sink alone; List leaves out bodies.
	Message *Message
	State   State
	// Reason and Error are the last failure, if any.
	Reason, Error string
	// Due is when it will next be tried; for a dead letter, when it died; for a
	// settled message, when it was settled.
	Due time.Time
	// BodySize is the length of the body in bytes, also where Message has none.
	BodySize int
	// MayHaveBeenSent says that an attempt has been made.
	MayHaveBeenSent bool
}

// Errors that a Store returns, to be tested with errors.Is.
var (
	// ErrNotFound: no such message is stored or remembered.
	ErrNotFound = errors.New("no such message")
	// ErrTooLate: the message is being delivered or already settled.
	ErrTooLate = errors.New("too late")
	// ErrConflict: the ID is taken by a message with other content.
	ErrConflict = errors.New("id is taken by a message with other content")
	// ErrCancelled: the ID is that of a message that was cancelled within the
	// deduplication window. It wraps ErrConflict.
	ErrCancelled error = &wrapped{"a message with this id was cancelled a short time ago", ErrConflict}
	// ErrAmbiguous: the ID is stored under two keys, or in two sinks.
	ErrAmbiguous = errors.New("id names two messages; give the key or the sink")
	// ErrBadCursor: the cursor of a Query was not made for it; start again.
	ErrBadCursor = errors.New("cursor is not valid for this query")
	// ErrUnavailable: it was not done, by the store or before it was asked; try again later.
	ErrUnavailable = errors.New("store unavailable, nothing was changed")
	// ErrFull: the store did not do it for want of memory or disk. It wraps
	// ErrUnavailable.
	ErrFull error = &wrapped{"store is full, nothing was changed", ErrUnavailable}
	// ErrUnknown: the store may or may not have done it; repeat with the same ID.
	ErrUnknown = errors.New("outcome unknown; repeating with the same id is safe")
	// ErrLeaseLost: another instance owns the bucket, or may soon.
	ErrLeaseLost = errors.New("lease of the bucket lost")
)

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.err }
