package dialect

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Found is the result of Read, in addition to the fields that it sets in the message.
type Found struct {
	// Tagged reports whether a header has a time or a delay, even one that has passed.
	Tagged bool
	// Over reports whether a header marks a delay that is over, and no other header has
	// a time: the message is due at once. Tagged is then false.
	Over bool
	// Rest are the indices of the message's own headers, in order. All others are about
	// scheduling and must not be passed on.
	Rest []int
	// Delivery are the indices of the headers that delivery has added to a message that
	// a consumer publishes again (see core.Message.Hop).
	Delivery []int
}

// Read sets the fields DeliverAt, Delay, ExpiresAt, TTL, ID, Sink, Topic, Key, Priority
// and Hop of m for which there are headers, and leaves the others unchanged; the times
// of m should be zero. Values may share memory with the headers.
//
// Read returns a *core.InvalidError for a value of the wrong type or form, a repeated
// header, two headers that disagree, a time together with a delay, or an unsupported
// request. Its Field is mostly the header; m must not be used then. Accept checks the
// bounds of the values.
func (s *Set) Read(m *core.Message, headers []Header) (Found, error) {
	found := Found{Rest: make([]int, 0, len(headers))}
	r := reading{m: m}
	again := slices.ContainsFunc(headers, func(h Header) bool { return core.MarksDelivery(h.Name) })
	for n, h := range headers {
		if name := core.DeliveryHeader(h.Name); again && name != "" {
			found.Delivery = append(found.Delivery, n)
			if err := r.delivered(name, h.Value); err != nil {
				return found, err
			}
			continue
		}
		row := s.row(h.Name)
		if row == nil && s.native && core.IsReservedHeader(h.Name) {
			return found, core.Invalidf("headers", "have the name %s, which is not a known delaybridge header", quote(h.Name))
		}
		if row == nil || row.keep {
			found.Rest = append(found.Rest, n)
		}
		if row == nil {
			continue
		}
		if err := r.header(row, h.Value); err != nil {
			return found, err
		}
	}
	if again {
		m.Hop++
		r.moved(s.row(core.HeaderDeliverAt))
	}
	if err := r.finish(); err != nil {
		return found, err
	}
	found.Tagged = r.by[deliverAt] != nil || r.by[delay] != nil
	found.Over = r.over && !found.Tagged
	return found, nil
}

// reading is one call of Read under way.
type reading struct {
	m       *core.Message
	by      [fields]*row // which header has set a field
	others  []*row       // headers that have set nothing, or what was set already
	ttlOnce time.Duration
	over    bool
	before  any // when a message that is published again was due, as its header says
}

// value is what a header's value means; the field reports which part.
type value struct {
	time   time.Time
	span   time.Duration
	text   []byte
	number int
	none   bool // asks for nothing
	over   bool // the delay is over
}

func (r *reading) header(row *row, raw any) error {
	if r.twice(row) {
		return core.Invalidf(row.header, "appears twice")
	}
	v, err := row.parse(raw)
	switch {
	case err != nil:
		return core.Invalidf(row.header, "%s", err)
	case v.over:
		r.over = true
	case !v.none && r.by[row.field] == nil:
		r.by[row.field] = row
		r.set(row.field, v)
		return nil
	case !v.none && !r.agrees(row.field, v):
		return core.Invalidf(row.header, "disagrees with %s", r.by[row.field].header)
	}
	r.others = append(r.others, row)
	return nil
}

// delivered reads a header that delivery has added.
func (r *reading) delivered(name string, raw any) error {
	switch name {
	case core.HeaderDeliverAt:
		r.before = raw
	case core.HeaderHop:
		text, err := textOf(raw)
		if n, notNumber := numberOf(raw); err != nil && notNumber == nil {
			text = strconv.AppendInt(nil, n, 10) // some clients make numbers of digits
		}
		hop, refused := core.ParseHop(string(text))
		if refused != nil {
			return refused
		}
		r.m.Hop = hop
	}
	return nil
}

// moved: the time at which a message was due has passed when it is published
// again. So one that has not is a new one, unless there is another.
func (r *reading) moved(row *row) {
	if row == nil || r.before == nil || r.by[deliverAt] != nil || r.by[delay] != nil {
		return
	}
	if v, err := parseTime(r.before); err == nil && v.time.After(time.Now()) {
		r.by[deliverAt], r.m.DeliverAt = row, v.time
	}
}

func (r *reading) twice(row *row) bool {
	if r.by[row.field] == row {
		return true
	}
	for _, other := range r.others {
		if other == row {
			return true
		}
	}
	return false
}

func (r *reading) set(f field, v value) {
	switch f {
	case deliverAt:
		r.m.DeliverAt = v.time
	case delay:
		r.m.Delay = v.span
	case expiresAt:
		r.m.ExpiresAt = v.time
	case ttl:
		r.m.TTL = v.span
	case ttlOnceDue:
		r.ttlOnce = v.span
	case id:
		r.m.ID = string(v.text)
	case sink:
		r.m.Sink = string(v.text)
	case topic:
		r.m.Topic = string(v.text)
	case key:
		r.m.Key = v.text
	case priority:
		r.m.Priority = v.number
	}
}

// agrees reports whether v is what the field is set to already.
func (r *reading) agrees(f field, v value) bool {
	switch f {
	case deliverAt:
		return r.m.DeliverAt.Equal(v.time)
	case delay:
		return r.m.Delay == v.span
	case expiresAt:
		return r.m.ExpiresAt.Equal(v.time)
	case id:
		return r.m.ID == string(v.text)
	case topic:
		return r.m.Topic == string(v.text)
	case key:
		return bytes.Equal(r.m.Key, v.text)
	}
	return false // no other field has two headers
}

// finish holds what can't be said together.
func (r *reading) finish() error {
	if r.by[ttlOnceDue] != nil {
		if r.by[deliverAt] == nil {
			return core.Invalidf(r.by[ttlOnceDue].header, "needs a delivery time")
		}
		if other := firstOf(r.by[ttl], r.by[expiresAt]); other != nil {
			return together(r.by[ttlOnceDue], other)
		}
		r.m.ExpiresAt = r.m.DeliverAt.Add(r.ttlOnce)
	}
	if r.by[delay] != nil && r.by[deliverAt] != nil {
		return together(r.by[delay], r.by[deliverAt])
	}
	if r.by[ttl] != nil && r.by[expiresAt] != nil {
		return together(r.by[ttl], r.by[expiresAt])
	}
	return nil
}

func firstOf(a, b *row) *row {
	if a != nil {
		return a
	}
	return b
}

func together(a, b *row) error {
	return core.Invalidf(a.header, "can't be used together with %s", b.header)
}
