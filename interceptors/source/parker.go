package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// Item is a record on its way into the store.
type Item struct {
	Message *core.Message
	// Err is why the record can't be a message; nil if it may be one. Park sets
	// it for what Accept refuses.
	Err error
	// New says that the source has never given this record to anyone before, and
	// that its ID is not one that the producer has chosen for the bridge. If a message
	// with the ID was delivered, the record is then not a repeat of it: a consumer
	// has published again what it got, and without our headers.
	New bool
	// Done is set by Park when the record is parked or rejected: the source may
	// forget it.
	Done bool
}

// Rejection is a record that can't be parked.
type Rejection struct {
	Index  int   // among the items
	Reason error // its text holds no more of the message than a name of 64 bytes
}

// Parker brings records into the store. Its fields are set before the first
// Park and not changed after. Safe for concurrent use.
type Parker struct {
	In *core.Interceptor
	// Name of the source, for the log.
	Name string
	Log  *slog.Logger // nil discards
	// Linger is how long an Accept or Reject under way may continue after the
	// context of Park has ended, so that its outcome is known; 5 s.
	Linger time.Duration
	// Skip leaves out, and logs, what can't be parked and has no place to go.
	Skip bool

	totals  totals
	summary core.LogSummary
	trouble atomic.Pointer[trouble]
}

type totals struct{ parked, duplicates, rejected, skipped, retried atomic.Uint64 }

// Report returns the counts so far; the name is for the Supervisor, and Lag for the
// source, to fill in.
func (p *Parker) Report() core.SourceReport {
	r := core.SourceReport{Parked: p.totals.parked.Load(), Duplicates: p.totals.duplicates.Load(), Rejected: p.totals.rejected.Load(),
		Skipped: p.totals.skipped.Load(), Retried: p.totals.retried.Load(), Lag: -1, LagTime: -1}
	if t := p.trouble.Load(); t != nil && time.Since(t.last) < troubleLasts {
		r.Trouble, r.Since = t.text, t.since
	}
	return r
}

// RefusedError says that a record can't be parked and that there is nowhere to
// put it. The source must stop, as going on would lose it.
type RefusedError struct {
	At     string // where the record is, as people find it
	ID     string // of the message, empty if it has none
	Reason error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the record at %s (message id %q) can't be parked, and on_bad_record is stop: %v", e.At, core.Shorten(e.ID, core.MaxIDLen), e.Reason)
}

func (e *RefusedError) Unwrap() error { return e.Reason }

// Park returns when every item is parked, or was parked before, or is rejected:
// then nil, and the source may be told that all are done. While the store or
// reject fails it tries again, ever slower, and so holds the source back.
//
// reject writes records away durably and returns nil, or an error if that may
// not have happened for all; then it is called again with the same. A nil
// reject means that there is no place for them. at reports where the item with an
// index came from, for the log.
//
// Otherwise the error is the cause of the end of ctx, or a *RefusedError; items
// that are Done then need not come again, and the others must.
func (p *Parker) Park(ctx context.Context, items []Item, reject func(ctx context.Context, rejected []Rejection) error, at func(index int) string) error {
	for n := range items {
		if item := &items[n]; item.Err != nil && !item.Done {
			p.In.Refused(ctx, codeOf(item.Err))
		}
	}
	work, cancel := p.lingering(ctx)
	defer cancel()
	err := p.repeat(ctx, "can't park", func() error { return p.accept(work, items) })
	if err != nil {
		return err
	}
	rejected := refused(items)
	switch {
	case len(rejected) == 0:
		return nil
	case reject == nil && p.Skip:
		p.leaveOut("record skipped, because it can't be parked and on_bad_record is skip", &p.totals.skipped, items, rejected, at)
		return nil
	case reject == nil:
		first := rejected[0]
		return &RefusedError{At: at(first.Index), ID: items[first.Index].id(), Reason: first.Reason}
	}
	if err := p.repeat(ctx, "can't write to the reject target", func() error { return reject(work, rejected) }); err != nil {
		return err
	}
	p.leaveOut("record rejected", &p.totals.rejected, items, rejected, at)
	return nil
}

// codeOf is the code of the API for a record that can't be a message.
func codeOf(err error) string {
	if _, ok := errors.AsType[*core.InvalidError](err); !ok {
		return apierror.Malformed
	}
	return apierror.Of(err).Code
}

func refused(items []Item) (rejected []Rejection) {
	for n := range items {
		if item := &items[n]; item.Err != nil && !item.Done {
			rejected = append(rejected, Rejection{Index: n, Reason: item.Err})
		}
	}
	return rejected
}

// leaveOut is done with records that are not parked.
func (p *Parker) leaveOut(text string, count *atomic.Uint64, items []Item, rejected []Rejection, at func(int) string) {
	count.Add(uint64(len(rejected)))
	for _, r := range rejected {
		item := &items[r.Index]
		item.Done = true
		place := at(r.Index)
		p.logRecord(slog.LevelWarn, text, place, item, "at", place, "err", core.Shorten(r.Reason.Error(), core.MaxErrorText))
	}
}

// id is the message's; empty if there is none.
func (i *Item) id() string {
	if i.Message == nil {
		return ""
	}
	return i.Message.ID
}

// accept tries to park what is neither done nor refused. The error says that
// some are left.
func (p *Parker) accept(ctx context.Context, items []Item) error {
	messages, places := make([]*core.Message, 0, len(items)), make([]int, 0, len(items))
	late := p.lateFrom()
	for n := range items {
		if item := &items[n]; item.Err == nil && !item.Done {
			if item.Message.DeliverAt.Before(late) {
				item.Message.DeliverAt = time.Time{}
			}
			messages, places = append(messages, item.Message), append(places, n)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	var trouble error
	again := false
	for n, receipt := range p.In.Accept(ctx, messages...) {
		item := &items[places[n]]
		if item.New && (receipt.Duplicate || errors.Is(receipt.Err, core.ErrConflict)) {
			delivered, err := p.wasDelivered(ctx, item.Message, receipt.State)
			if delivered {
				item.republish()
				again = true
				continue
			}
			receipt.Err = cmp.Or(err, receipt.Err)
		}
		if err := p.settle(item, receipt); err != nil && trouble == nil {
			trouble = err
		}
	}
	if again && trouble == nil {
		return p.accept(ctx, items)
	}
	return trouble
}

// lateFrom is the time before which Accept would refuse a time of delivery as
// too long ago. That it has come to this is not the producer's fault: Apply has
// held the time against when the record was written. So it means at once.
func (p *Parker) lateFrom() time.Time {
	past := p.In.Limits().MaxPast
	if past < 0 {
		return time.Time{}
	}
	return time.Now().Add(min(past/10, time.Minute) - past)
}

// settle notes what Accept said of one item; the error says that it is open.
func (p *Parker) settle(item *Item, receipt core.Receipt) error {
	switch err := receipt.Err; {
	case err == nil:
		item.Done = true
		switch {
		case receipt.Duplicate && receipt.State == core.Delivered: // that it was the same can't be told any more
			p.passOver(slog.LevelWarn, "a message with its id was delivered a short time ago", item)
		case receipt.Duplicate:
			p.passOver(slog.LevelInfo, "a message with its id was accepted before", item)
		default:
			p.totals.parked.Add(1)
		}
	case errors.Is(err, core.ErrCancelled): // a record that is read again
		item.Done = true
		p.passOver(slog.LevelInfo, "its message was parked and cancelled before", item)
	case isRefusal(err):
		item.Err = err
	default:
		item.Message.ID = receipt.ID                               // so that trying again is safe
		item.New = item.New && errors.Is(err, core.ErrUnavailable) // it may be there now
		return err
	}
	return nil
}

// passOver counts and logs a record that makes no message.
func (p *Parker) passOver(level slog.Level, why string, item *Item) {
	p.totals.duplicates.Add(1)
	p.logRecord(level, "record was skipped, as "+why, item.id(), item)
}

func isRefusal(err error) bool {
	_, invalid := errors.AsType[*core.InvalidError](err)
	return invalid || errors.Is(err, core.ErrConflict)
}
