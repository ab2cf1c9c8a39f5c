package httplistener

import (
	"cmp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// foreignDialects are those that a raw body may come with. The native one is
// always there, and read by the listener itself.
func foreignDialects(names []string) (*dialect.Set, error) {
	if slices.Contains(names, dialect.Native) {
		return nil, core.Invalidf("dialects", "have native, which is always enabled; leave it out")
	}
	return dialect.New(names...)
}

// eventPrefix begins the headers of a CloudEvent in HTTP's binary mode.
const eventPrefix = "ce-"

// isForeign reports whether a request header is of a dialect that is on, or goes
// with one: an event arrives with all of its attributes.
func (s *Server) isForeign(lower string) bool {
	return s.dialects.Knows(lower) || strings.HasPrefix(lower, eventPrefix) && slices.Contains(s.config.Dialects, "cloudevents")
}

func foreignHeaders(name string, values []string) (headers []dialect.Header) {
	for _, value := range values {
		headers = append(headers, dialect.Header{Name: name, Value: value})
	}
	return headers
}

// readForeign does what the headers of other dialects say. What is said in our
// own headers, or in the path, too is a conflict unless it is the same.
func (p *published) readForeign(dialects *dialect.Set) error {
	if len(p.foreign) == 0 {
		return nil
	}
	var wish core.Message
	found, err := dialects.Read(&wish, p.foreign)
	if err != nil {
		return err
	}
	for _, n := range found.Rest {
		if err := p.forward(p.foreign[n].Name, []string{p.foreign[n].Value.(string)}); err != nil {
			return err
		}
	}
	if err := p.adopt(&wish, found); err != nil {
		return err
	}
	m := &p.message
	m.DeliverAt, m.Delay = cmp.Or(m.DeliverAt, wish.DeliverAt), cmp.Or(m.Delay, wish.Delay)
	m.ExpiresAt, m.TTL = cmp.Or(m.ExpiresAt, wish.ExpiresAt), cmp.Or(m.TTL, wish.TTL)
	m.ID = cmp.Or(m.ID, wish.ID)
	if wish.Key != nil {
		m.Key = wish.Key
	}
	return nil
}

// adopt notes what wish gives, if it is not there already.
func (p *published) adopt(wish *core.Message, found dialect.Found) error {
	for _, one := range []struct {
		there   bool
		as, not field // what it counts as, and what must not be given yet
	}{
		{found.Tagged && wish.DeliverAt.IsZero() || found.Over, fieldDelay, whenFields},
		{!wish.DeliverAt.IsZero(), fieldDeliverAt, whenFields},
		{wish.TTL > 0, fieldTTL, fieldTTL | fieldExpiresAt},
		{!wish.ExpiresAt.IsZero(), fieldExpiresAt, fieldTTL | fieldExpiresAt},
		{wish.ID != "", fieldID, fieldID},
		{wish.Key != nil, fieldKey, fieldKey},
	} {
		if !one.there {
			continue
		}
		if p.given&one.not != 0 {
			return core.Invalidf(one.as.String(), "is set by a native header and by one of another dialect")
		}
		p.given |= one.as
	}
	if wish.Topic != "" && wish.Topic != p.message.Topic || wish.Sink != "" && wish.Sink != p.message.Sink {
		return core.Invalidf("topic", "differs between header and path")
	}
	return nil
}
