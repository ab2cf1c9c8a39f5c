package events

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Stream tells its readers what one instance does. Without readers it costs a look.
// Create it with New.
type Stream struct {
	instance string
	mu       sync.Mutex // of who changes readers
	readers  atomic.Pointer[[]*Reader]

	cutOff atomic.Uint64          // readers
	sender atomic.Pointer[Sender] // nil: none
}

// Counts are what a Stream has done since it began.
type Counts struct {
	Readers int    // at present
	CutOff  uint64 // readers that were too slow
	// Of the Sender, if there is one: events that are final, and others.
	Sends                              bool
	FinalSent, FinalFull, FinalRefused uint64
	OtherSent, OtherFull, OtherRefused uint64
	FinalWaiting, OtherWaiting         int64 // bytes
}

// Counts returns the present counts.
func (s *Stream) Counts() Counts {
	c := Counts{Readers: count(*s.readers.Load()), CutOff: s.cutOff.Load()}
	if to := s.sender.Load(); to != nil {
		to.count(&c)
	}
	return c
}

// New returns the Stream of an instance of that name. It starts nothing.
func New(instance string) *Stream {
	s := &Stream{instance: instance}
	s.readers.Store(new([]*Reader))
	return s
}

// MaxReaders is how many can read at the same time.
const MaxReaders = 16

// ErrReaders is the error of Subscribe if there are MaxReaders.
var ErrReaders = errors.New("as many readers of events as are allowed")

// Subscribe returns a Reader of the events that f selects, with bodies if those are asked
// for. Close it.
func (s *Stream) Subscribe(f Filter, bodies bool) (*Reader, error) {
	return s.add(&Reader{filter: f, bodies: bodies})
}

func (s *Stream) add(r *Reader) (*Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := *s.readers.Load()
	if !r.lasting && count(before) == MaxReaders {
		return nil, ErrReaders
	}
	r.stream, r.woken = s, make(chan struct{}, 1)
	after := append(slices.Clone(before), r)
	s.readers.Store(&after)
	return r, nil
}

func (s *Stream) remove(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := slices.DeleteFunc(slices.Clone(*s.readers.Load()), func(one *Reader) bool { return one == r })
	s.readers.Store(&after)
}

// count counts the readers that Subscribe has made.
func count(readers []*Reader) (n int) {
	for _, r := range readers {
		if !r.lasting {
			n++
		}
	}
	return n
}

// Observer returns what core.Options wants.
func (s *Stream) Observer() core.Observer {
	return core.Observer{Accepted: s.onAccepted, Changed: s.onChanged, Delivered: s.onDelivered}
}

// Reloaded tells that the configuration was read again: which keys have changed, or why
// it was refused.
func (s *Stream) Reloaded(changes []string, err error) {
	if readers := s.wanting(Reloaded); len(readers) > 0 {
		e := &Event{Changes: changes}
		if err != nil {
			e.Error = core.Shorten(err.Error(), maxError)
		}
		s.publish(readers, Reloaded, time.Now(), e, nil)
	}
}

// Final returns what makes a line of a message that became final, for a store that keeps it.
func (s *Stream) Final(bodies bool) func(id string, m *core.Message, o core.Outcome) []byte {
	return func(id string, m *core.Message, o core.Outcome) []byte {
		e := Event{EventID: id, Instance: s.instance, Time: timeText(time.Now())}
		e.ended(m, &o)
		if !bodies {
			m = nil
		}
		return e.encode(m)
	}
}

// wanting returns the readers that may want an event; mostly there are none.
func (s *Stream) wanting(event string) (readers []*Reader) {
	for _, r := range *s.readers.Load() {
		if r.filter.wants(event) {
			readers = append(readers, r)
		}
	}
	return readers
}

// publish gives an event to those of readers that want it. m has its body, if it is not nil.
func (s *Stream) publish(readers []*Reader, event string, at time.Time, e *Event, m *core.Message) {
	e.Event, e.Instance, e.Time = event, s.instance, timeText(at)
	var plain, full []byte
	for _, r := range readers {
		switch {
		case !r.filter.selects(e):
			continue
		case r.bodies && m != nil:
			if full == nil {
				full = e.encode(m)
			}
			r.offer(Line{event, e.ID, full})
		default:
			if plain == nil {
				plain = e.encode(nil)
			}
			r.offer(Line{event, e.ID, plain})
		}
	}
}

func (s *Stream) onAccepted(_ context.Context, a core.Acceptance) {
	readers := s.wanting(Accepted)
	if len(readers) == 0 {
		return
	}
	for n, m := range a.Messages {
		r := &a.Receipts[n]
		if r.Err != nil || r.Duplicate {
			continue
		}
		e := &Event{Input: a.Input}
		e.about(m)
		e.ID, e.Sink, e.DeliverAt = r.ID, r.Sink, timeText(r.DeliverAt)
		s.publish(readers, Accepted, a.Ended, e, m)
	}
}

func (s *Stream) onChanged(_ context.Context, c core.Change) {
	if c.Err != nil {
		return
	}
	event, reason := eventOf(c.Action)
	readers := s.wanting(event)
	if len(readers) == 0 {
		return
	}
	e := &Event{Sink: c.Ref.Sink, ID: c.Ref.ID, Reason: reason, Input: c.Input, Attempt: c.Receipt.Attempt, DeliverAt: timeText(c.Receipt.DeliverAt)}
	e.setKey(c.Ref.Key)
	s.publish(readers, event, c.Ended, e, nil)
}

// eventOf returns the event of an action, and the reason if the event has other causes.
func eventOf(a core.Action) (event, reason string) {
	switch a {
	case core.ActionCancel:
		return Cancelled, ""
	case core.ActionDeliverNow:
		return Rescheduled, string(a)
	case core.ActionRedrive:
		return Redriven, ""
	case core.ActionDiscard:
		return Discarded, ""
	}
	return Rescheduled, ""
}

func (s *Stream) onDelivered(d core.Delivery) {
	readers := *s.readers.Load()
	if len(readers) == 0 || d.Err != nil {
		return
	}
	find := d.Finder()
	for n := range d.Outcomes {
		o := &d.Outcomes[n]
		m, at := find(o.ID), d.Settled
		var e Event
		e.ended(m, o)
		switch o.State {
		case core.Delivered:
			at = d.Returned
		case core.Retrying:
			e.Due = timeText(d.Settled.Add(o.After))
		}
		s.publish(readers, e.Event, at, &e, m)
	}
}
