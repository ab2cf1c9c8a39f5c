package core

import (
	"context"
	"time"
)

// Observer is told what happens to messages, for metrics, traces and events. A nil
// function costs nothing. The others are called when it has happened, in the goroutine
// that does the work, several at a time: they must be quick and must not block. What they
// are given is theirs to read until they return.
type Observer struct {
	// Accepted is called at the end of each call of Accept.
	Accepted func(ctx context.Context, a Acceptance)
	// Refused is called for requests and records that a listener or source refuses by
	// itself, such as one that it can't decode; see Interceptor.Refused.
	Refused func(ctx context.Context, r Refusal)
	// Changed is called at the end of each Cancel, Reschedule, DeliverNow, Redrive and
	// Discard.
	Changed func(ctx context.Context, c Change)
	// Delivered is called at the end of each batch of a bucket.
	Delivered func(d Delivery)
}

// Acceptance is one call of Accept.
type Acceptance struct {
	Input    string // the listener or source that called, see Interceptor.For; may be empty
	Messages []*Message
	Receipts []Receipt // of Messages, in order
	// Began is when Accept was called, Checked when messages and sinks had agreed, and
	// Ended when the store had answered.
	Began, Checked, Ended time.Time
}

// Refusal is a request or record that did not become a call of Accept.
type Refusal struct {
	Input  string
	Reason string // one word
}

// Action is what a Change does.
type Action string

// The actions.
const (
	ActionCancel     Action = "cancel"
	ActionReschedule Action = "reschedule"
	ActionDeliverNow Action = "deliver_now"
	ActionRedrive    Action = "redrive"
	ActionDiscard    Action = "discard"
)

// Change is one call that changes a message.
type Change struct {
	Input        string // as in Acceptance
	Action       Action
	Ref          Ref // with the sink, if it was found
	Receipt      Receipt
	Err          error // nil: it is done
	Began, Ended time.Time
}

// Delivery is one batch that a bucket has taken: what the sink was called for, and
// messages that had expired or had no attempts left.
type Delivery struct {
	Sink, Bucket string
	Batch
	Outcomes []Outcome // of the messages that have one, by ID, in no order
	// Take was called, and had returned; the sink was first called, and had last returned,
	// which are zero if it was not called; the store had settled the batch, or had not.
	Asked, Taken, Called, Returned, Settled time.Time
	// Err is why the batch is not settled: what was delivered may be delivered again.
	Err error
}

// Lateness is how long after its due time a message of the batch was confirmed, if its
// outcome is Delivered. All count as confirmed when the sink had last returned.
func (d *Delivery) Lateness(m *Message) time.Duration {
	return d.Now.Add(d.Returned.Sub(d.Local)).Sub(m.DeliverAt)
}

// Finder returns a function that finds messages of the batch by ID. Outcomes mostly come
// in the order of the messages, in which it is quick.
func (d *Delivery) Finder() func(id string) *Message {
	messages, next := d.Messages, 0
	var byID map[string]*Message
	return func(id string) *Message {
		if next < len(messages) && messages[next].ID == id {
			next++
			return messages[next-1]
		}
		if byID == nil {
			byID = make(map[string]*Message, len(messages))
			for _, m := range messages {
				byID[m.ID] = m
			}
		}
		return byID[id]
	}
}

// And returns an Observer that tells o and then next.
func (o Observer) And(next Observer) Observer {
	both := Observer{Accepted: tellBoth(o.Accepted, next.Accepted), Refused: tellBoth(o.Refused, next.Refused),
		Changed: tellBoth(o.Changed, next.Changed), Delivered: o.Delivered}
	switch {
	case o.Delivered == nil:
		both.Delivered = next.Delivered
	case next.Delivered != nil:
		both.Delivered = func(d Delivery) { o.Delivered(d); next.Delivered(d) }
	}
	return both
}

func tellBoth[T any](first, next func(context.Context, T)) func(context.Context, T) {
	switch {
	case first == nil:
		return next
	case next == nil:
		return first
	}
	return func(ctx context.Context, what T) { first(ctx, what); next(ctx, what) }
}

// For returns an Interceptor for one listener or source: an Observer is told the name
// input for its calls. It shares everything else with i.
func (i *Interceptor) For(input string) *Interceptor {
	named := *i
	named.input = input
	return &named
}

// Refused has the Observer told of a request or record that was refused before it became a
// call of Accept. reason is one of a few words: it becomes a label of metrics.
func (i *Interceptor) Refused(ctx context.Context, reason string) {
	if i.observer.Refused != nil {
		i.observer.Refused(ctx, Refusal{Input: i.input, Reason: reason})
	}
}
