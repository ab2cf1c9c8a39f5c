// Package diversion tells which of a producer's messages are for the bridge.
// The packages that wrap producers share it, so that a header means the same to
// all of them, and the same as to the bridge's own doors.
package diversion

import (
	"errors"
	"strings"
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

// Concern tells whether a header of this name is about scheduling. A message
// without such a header is not for the bridge.
func (r *Rules) Concern(name string) bool { return r.set.Knows(name) }

// forwardedLead is how far ahead of our clock the time of a message that was
// delivered already may be.
const forwardedLead = time.Minute

// Read sets what the headers say of m, and the sink, and tells whether m is for
// the bridge. rest are the indices of the headers that are the message's own. A
// message that the bridge has delivered, with the headers that it added, is not
// for the bridge: it is being passed on. The error is a *client.Error.
func (r *Rules) Read(m *client.Message, headers []dialect.Header) (rest []int, delayed bool, err error) {
	read := core.Message{ID: m.ID, Sink: r.sink, Topic: m.Topic, Key: m.Key, Priority: m.Priority}
	asked, forwarded := withoutAttempt(headers)
	found, err := r.set.Read(&read, asked)
	if err != nil {
		return nil, false, refused(err)
	}
	if forwarded {
		return nil, false, checkForwarded(&read, found)
	}
	m.ID, m.Sink, m.Topic, m.Key, m.Priority = read.ID, read.Sink, read.Topic, read.Key, read.Priority
	m.Delay, m.DeliverAt, m.TTL, m.ExpiresAt = read.Delay, read.DeliverAt, read.TTL, read.ExpiresAt
	return found.Rest, found.Tagged, nil
}

// withoutAttempt leaves out the header that only delivered messages have, and
// tells whether it was there.
func withoutAttempt(headers []dialect.Header) (others []dialect.Header, found bool) {
	for n, h := range headers {
		if strings.EqualFold(strings.ReplaceAll(h.Name, "_", "-"), core.HeaderAttempt) {
			others = append(append(others, headers[:n]...), headers[n+1:]...)
			return others, true
		}
	}
	return headers, false
}

// checkForwarded refuses what was delivered before and is to be delayed again:
// its headers are partly old and partly new.
func checkForwarded(m *core.Message, found dialect.Found) error {
	old := !m.DeliverAt.IsZero() && m.DeliverAt.Before(time.Now().Add(forwardedLead))
	if !found.Tagged || old {
		return nil
	}
	return client.Invalid(core.HeaderAttempt, "tells that the message was delivered by delaybridge; "+
		"take the headers that begin with %s off before it is delayed again", core.HeaderPrefix)
}

func refused(err error) error {
	if e, ok := errors.AsType[*core.InvalidError](err); ok {
		return client.Invalid(e.Field, "%s", e.Reason)
	}
	return err
}
