// Package delayheaders reports by their headers which of a producer's messages are
// for the bridge. The packages that wrap producers share it, so that a header means
// the same to all of them, and the same as to the bridge's own listeners.
package delayheaders

import (
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// Rules are the dialects that a producer's messages may ask in for a delay, and
// the sink that they then go to. Safe for concurrent use.
type Rules struct {
	set  *dialect.Set
	sink string
}

// New returns Rules for our own headers and those of the dialects named. A name
// that is not known is a mistake of the package that calls, and panics.
func New(sink string, dialects ...string) *Rules {
	set, err := dialect.New(append([]string{dialect.Native}, dialects...)...)
	if err != nil {
		panic(err)
	}
	return &Rules{set: set, sink: sink}
}

// Concern reports whether a header of this name is about scheduling. A message
// without such a header is not for the bridge.
func (r *Rules) Concern(name string) bool { return r.set.Knows(name) }

// forwardedLead is how far ahead of our clock the time of a message that was
// delivered already may be.
const forwardedLead = time.Minute

// Read sets what the headers say of m, and the sink, and reports whether m is for
// the bridge. rest are the indices of the headers that are the message's own. A
// message that the bridge has delivered, with the headers that it added, is for
// the bridge if it is to be delayed again, and these headers are then among rest,
// as the bridge counts by them. Else it is being passed on. The error is a
// *client.Error.
func (r *Rules) Read(m *client.Message, headers []dialect.Header) (rest []int, delayed bool, err error) {
	read := core.Message{ID: m.ID, Sink: r.sink, Topic: m.Topic, Key: m.Key, Priority: m.Priority}
	found, err := r.set.Read(&read, headers)
	if err != nil {
		return nil, false, refused(err)
	}
	if read.Hop > 0 && isPassedOn(&read, found) {
		return nil, false, nil
	}
	m.ID, m.Sink, m.Topic, m.Key, m.Priority = read.ID, read.Sink, read.Topic, read.Key, read.Priority
	m.Delay, m.DeliverAt, m.TTL, m.ExpiresAt = read.Delay, read.DeliverAt, read.TTL, read.ExpiresAt
	if found.Tagged && m.Delay == 0 && m.DeliverAt.IsZero() {
		m.Delay = client.Now // a header says so
	}
	return append(found.Rest, found.Delivery...), found.Tagged, nil
}

// isPassedOn: the time at which a message was delivered is on it still.
func isPassedOn(m *core.Message, found dialect.Found) bool {
	old := !m.DeliverAt.IsZero() && m.DeliverAt.Before(time.Now().Add(forwardedLead))
	return !found.Tagged || old
}

func refused(err error) error {
	if e, ok := errors.AsType[*core.InvalidError](err); ok {
		return client.Invalid(e.Field, "%s", e.Reason)
	}
	return err
}
