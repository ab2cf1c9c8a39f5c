package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Interceptor checks messages and parks them. Listeners and sources (HTTP, gRPC, broker
// topics) decode requests into its calls and encode its results; they have no rules about
// what may be accepted. NewBridge makes it. It is safe for concurrent use.
type Interceptor struct {
	store  Store
	setup  *atomic.Pointer[setup]
	health *health
	self   *self

	observer *Observer
	input    string // for the observer
}

func newInterceptor(store Store, options Options, sinks []*Dispatcher) *Interceptor {
	i := &Interceptor{store: store, setup: new(atomic.Pointer[setup]), health: &health{looking: make(chan struct{}, 1)},
		self: &self{started: time.Now()}, observer: &options.Observer}
	for _, d := range sinks {
		d.join(i.observer, nil)
	}
	i.setup.Store(newSetup(options.Limits, sinks))
	i.announce()
	return i
}

// Limits returns the effective limits, without zero fields.
func (i *Interceptor) Limits() Limits { return i.setup.Load().limits }

// Sinks returns the names of the configured sinks, in the order given.
func (i *Interceptor) Sinks() []string { return i.setup.Load().ordered }

// Accept checks and parks messages, each independently, and returns one Receipt per
// message, in order. A message that names no sink is for the only one there is; if there
// are several, it is refused. A sink that is a Checker is called once with all of its messages.
// Only a Receipt without Err means that the message is stored, at the durability that
// it names. Errors in Receipt.Err:
//
//	*InvalidError   not stored; the same message is refused again
//	ErrConflict     not stored: the ID is used by a message with other content
//	ErrCancelled    not stored: the ID is that of a recently cancelled message
//	ErrUnavailable  not stored; try again later (ErrFull and ErrEnded wrap it)
//	ErrUnknown      may be stored; try again with the ID in the Receipt
//
// A message without an ID is assigned one; Receipt.ID always has the ID. Accept changes
// the messages; do not use them until it returns.
func (i *Interceptor) Accept(ctx context.Context, messages ...*Message) []Receipt {
	var refused refusals
	now := time.Now()
	s, ok := i.begin()
	for n, m := range messages {
		refused.add(n, s.prepare(m, now))
	}
	if ok {
		s.check(ctx, messages, &refused)
	}
	checked := time.Now()
	receipts := i.park(ctx, s, messages, refused)
	for n := range receipts {
		s.count(&receipts[n], messages[n], now)
	}
	if i.observer.Accepted != nil {
		i.observer.Accepted(ctx, Acceptance{Input: i.input, Messages: messages, Receipts: receipts, Began: now, Checked: checked, Ended: time.Now()})
	}
	return receipts
}

// refusals are why messages are not parked, by their place; mostly there are none.
type refusals map[int]error

func (r *refusals) add(n int, err error) {
	if err == nil {
		return
	}
	if *r == nil {
		*r = make(refusals)
	}
	(*r)[n] = err
}

// check asks the sinks about their messages: each once, and several at the same
// time, so that one that takes its time delays the others no more than that. It ends
// what begin began.
func (s *setup) check(ctx context.Context, messages []*Message, refused *refusals) {
	defer s.calls.group.Done()
	var asked []*checkCall
	for n, m := range messages {
		if (*refused)[n] != nil {
			continue
		}
		checker, ok := Ability[Checker](s.sinks[m.Sink].Sink)
		if !ok {
			continue
		}
		at := slices.IndexFunc(asked, func(c *checkCall) bool { return c.sink == m.Sink })
		if at < 0 {
			at, asked = len(asked), append(asked, &checkCall{sink: m.Sink, checker: checker})
		}
		asked[at].batch, asked[at].places = append(asked[at].batch, m), append(asked[at].places, n)
	}
	var group sync.WaitGroup
	for n, c := range asked {
		if n == len(asked)-1 { // mostly the only one
			c.run(ctx)
			break
		}
		group.Go(func() { c.run(ctx) })
	}
	group.Wait()
	for _, c := range asked {
		for n, place := range c.places {
			refused.add(place, c.result(n))
		}
	}
}

// checkCall is the question to one sink.
type checkCall struct {
	sink    string
	checker Checker
	batch   []*Message
	places  []int      // of the batch in the call of Accept
	each    BatchError // for each message, if that is the answer
	err     error      // for all
}

func (c *checkCall) run(ctx context.Context) {
	err := c.checker.Check(ctx, c.batch)
	each, ok := errors.AsType[BatchError](err)
	switch {
	case ok && len(each) == len(c.batch):
		c.each = each
	case err != nil:
		c.err = &uncheckedError{c.sink, err}
	}
}

func (c *checkCall) result(n int) error {
	if c.each != nil {
		return c.each[n]
	}
	return c.err
}

// uncheckedError is an ErrUnavailable that is not the store's.
type uncheckedError struct {
	sink string
	err  error
}

func (e *uncheckedError) Error() string {
	return fmt.Sprintf("sink %s could not check the message, which is not stored: %v", e.sink, e.err)
}

func (e *uncheckedError) Unwrap() []error { return []error{ErrUnavailable, e.err} }

// park parks what is not refused; mostly nothing is. checked is the setup that has agreed:
// meanwhile the Bridge may have ended, or lost a sink.
func (i *Interceptor) park(ctx context.Context, checked *setup, messages []*Message, refused refusals) []Receipt {
	s, ok := i.begin()
	if ok {
		defer s.calls.group.Done()
	}
	if !ok || s != checked {
		for n, m := range messages {
			switch {
			case refused[n] != nil:
			case !ok:
				refused.add(n, ErrEnded)
			case s.sinks[m.Sink] == nil:
				refused.add(n, unknownSink(m.Sink))
			}
		}
	}
	if len(refused) == 0 {
		return i.store.Park(ctx, messages...)
	}
	receipts := make([]Receipt, len(messages))
	good, places := make([]*Message, 0, len(messages)), make([]int, 0, len(messages))
	for n, m := range messages {
		if err := refused[n]; err != nil {
			receipts[n] = Receipt{ID: m.ID, Sink: m.Sink, Err: err}
			continue
		}
		good, places = append(good, m), append(places, n)
	}
	if len(good) > 0 {
		for n, receipt := range i.store.Park(ctx, good...) {
			receipts[places[n]] = receipt
		}
	}
	return receipts
}

// prepare brings a message into the form that the store takes, or refuses it.
func (s *setup) prepare(m *Message, now time.Time) error {
	m.Sink = s.sinkOr(m.Sink)
	m.DeliverAt = ceilMillisecond(m.DeliverAt)
	m.ExpiresAt = ceilMillisecond(m.ExpiresAt)
	m.Delay = ceilDuration(m.Delay)
	m.TTL = ceilDuration(m.TTL)
	if err := s.limits.republish(m); err != nil {
		return err
	}
	if err := s.limits.Check(m, now); err != nil {
		return err
	}
	if _, ok := s.sinks[m.Sink]; !ok {
		return unknownSink(m.Sink)
	}
	m.Generated = m.ID == ""
	return nil
}

func (s *setup) count(r *Receipt, m *Message, now time.Time) {
	d, ok := s.sinks[r.Sink]
	if !ok {
		return
	}
	d.counts().begin(now)
	switch {
	case r.Err != nil:
		d.counts().refused.Add(1)
	case r.Duplicate:
		d.counts().repeated.Add(1)
	default:
		d.counts().accepted.Add(1)
		if m.Hop > 0 {
			d.counts().republished.Add(1)
		}
	}
}

// ceilMillisecond rounds up to whole milliseconds: down would be early.
func ceilMillisecond(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

func ceilDuration(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Millisecond); whole < d {
		return whole + time.Millisecond
	}
	return d
}

// Get returns a message and its state; errors as Store.Get, and *InvalidError. If ref
// has no Sink, all sinks are searched: ErrAmbiguous if two have the ID.
func (i *Interceptor) Get(ctx context.Context, ref Ref) (Entry, error) {
	s := i.setup.Load()
	if err := s.checkRef(ref); err != nil {
		return Entry{}, err
	}
	if ref.Sink = s.sinkOr(ref.Sink); ref.Sink != "" {
		return i.store.Get(ctx, ref)
	}
	return i.find(ctx, s.ordered, ref)
}

func unknownSink(name string) *InvalidError {
	return Invalidf("sink", "no sink has the name %q", Shorten(name, 64))
}

// find looks for ref in all sinks at once.
func (i *Interceptor) find(ctx context.Context, sinks []string, ref Ref) (Entry, error) {
	entries, errs := make([]Entry, len(sinks)), make([]error, len(sinks))
	var group sync.WaitGroup
	for n, name := range sinks {
		group.Go(func() {
			one := ref
			one.Sink = name
			entries[n], errs[n] = i.store.Get(ctx, one)
		})
	}
	group.Wait()
	found := -1
	for n, err := range errs {
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return Entry{}, fmt.Errorf("search sink %s: %w", sinks[n], err)
		case found >= 0:
			return Entry{}, ErrAmbiguous
		default:
			found = n
		}
	}
	if found < 0 {
		return Entry{}, ErrNotFound
	}
	return entries[found], nil
}

// locate completes ref with the sink that has the message.
func (i *Interceptor) locate(ctx context.Context, s *setup, ref Ref) (Ref, error) {
	if err := s.checkRef(ref); err != nil {
		return ref, err
	}
	if ref.Sink = s.sinkOr(ref.Sink); ref.Sink != "" {
		return ref, nil
	}
	entry, err := i.find(ctx, s.ordered, ref)
	if err != nil {
		return ref, err
	}
	ref.Sink = entry.Message.Sink
	return ref, nil
}

// Cancel withdraws a message; see Store.Cancel. If ref has no Sink, all sinks are
// searched.
func (i *Interceptor) Cancel(ctx context.Context, ref Ref) (Receipt, error) {
	return i.change(ctx, ActionCancel, ref, i.store.Cancel)
}

// Reschedule changes when a message is due; see Store.Reschedule. It returns an
// *InvalidError if the time is out of the bounds of Accept.
func (i *Interceptor) Reschedule(ctx context.Context, ref Ref, when When) (Receipt, error) {
	return i.reschedule(ctx, ActionReschedule, ref, when)
}

func (i *Interceptor) reschedule(ctx context.Context, action Action, ref Ref, when When) (Receipt, error) {
	when.At, when.After = ceilMillisecond(when.At), ceilDuration(when.After)
	probe := &Message{DeliverAt: when.At, Delay: when.After}
	if err := i.Limits().checkTimes(probe, time.Now()); err != nil {
		return Receipt{}, err
	}
	return i.change(ctx, action, ref, func(ctx context.Context, ref Ref) (Receipt, error) {
		return i.store.Reschedule(ctx, ref, when)
	})
}

// DeliverNow makes a waiting message due at once; errors as Cancel.
func (i *Interceptor) DeliverNow(ctx context.Context, ref Ref) (Receipt, error) {
	return i.reschedule(ctx, ActionDeliverNow, ref, When{})
}

// Redrive sends a dead letter again; see Store.Redrive.
func (i *Interceptor) Redrive(ctx context.Context, ref Ref) (Receipt, error) {
	return i.change(ctx, ActionRedrive, ref, i.store.Redrive)
}

// Discard removes a dead letter; see Store.Discard.
func (i *Interceptor) Discard(ctx context.Context, ref Ref) (Receipt, error) {
	return i.change(ctx, ActionDiscard, ref, i.store.Discard)
}

// change does what act does, and tells the observer.
func (i *Interceptor) change(ctx context.Context, action Action, ref Ref, act func(context.Context, Ref) (Receipt, error)) (Receipt, error) {
	began := time.Now()
	receipt, err := i.act(ctx, &ref, act)
	if i.observer.Changed != nil {
		i.observer.Changed(ctx, Change{Input: i.input, Action: action, Ref: ref, Receipt: receipt, Err: err, Began: began, Ended: time.Now()})
	}
	return receipt, err
}

// act completes ref, and acts on what it names.
func (i *Interceptor) act(ctx context.Context, ref *Ref, act func(context.Context, Ref) (Receipt, error)) (Receipt, error) {
	s, ok := i.begin()
	if !ok {
		return Receipt{}, ErrEnded
	}
	defer s.calls.group.Done()
	located, err := i.locate(ctx, s, *ref)
	if err != nil {
		return Receipt{}, err
	}
	*ref = located
	return act(ctx, located)
}

// Durability returns the level at which the store accepts, or "unknown".
func (i *Interceptor) Durability() string {
	if store, ok := Ability[interface{ Durability() string }](i.store); ok {
		return store.Durability()
	}
	return "unknown"
}
