package httplistener

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// headerOfMessage begins the request headers that hold the message's own.
const headerOfMessage = core.HeaderPrefix + "header-"

func (s *Server) publish(w http.ResponseWriter, r *http.Request) error {
	if err := checkEncoding(r); err != nil {
		return notStored(err)
	}
	if r.URL.RawQuery != "" {
		return notStored(core.Invalidf("query", "is not supported here; use the headers"))
	}
	message, err := s.messageOfHeaders(r)
	if err != nil {
		return notStored(err)
	}
	buffer := s.buffers.get()
	if err := read(w, r, buffer, int64(s.in.Limits().MaxBody)); err != nil {
		p := problemOf(err)
		p.Field = "body"
		return notStored(p)
	}
	if message.Body = buffer.Bytes(); message.Body == nil {
		message.Body = []byte{}
	}
	receipt := s.accept(r, buffer, message)[0]
	if e, ok := errors.AsType[*core.InvalidError](receipt.Err); ok && e.TooLarge && e.Field != "body" {
		receipt.Err = headersProblem(e)
	}
	return s.accepted(w, receipt)
}

// headersProblem is for what an envelope would have in its body.
func headersProblem(e *core.InvalidError) *problem {
	p := newProblem(codeHeaders, e.Error())
	p.Field = e.Field
	return p
}

// messageOfHeaders makes the message of a publish request, but for its body.
func (s *Server) messageOfHeaders(r *http.Request) (*core.Message, error) {
	p := published{message: core.Message{Sink: r.PathValue("sink"), Topic: r.PathValue("topic")}, again: marksDelivery(r.Header)}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		var err error
		switch {
		case lower == "content-type":
			err = p.forward(lower, values)
		case core.IsReservedHeader(lower):
			err = p.reserved(lower, values)
		case s.isForeign(lower):
			p.foreign = append(p.foreign, foreignHeaders(lower, values)...)
		}
		if err != nil {
			return nil, err
		}
		if most := s.in.Limits().MaxHeaders; core.CountHeaders(p.message.Headers) > most {
			return nil, headersProblem(core.Invalidf("headers", "are more than %d", most))
		}
	}
	if err := p.readForeign(s.dialects); err != nil {
		return nil, err
	}
	return p.finish()
}

// published is a message in the making from request headers.
type published struct {
	message core.Message
	given   field
	foreign []dialect.Header // of other dialects, and what belongs to them
	again   bool             // it was delivered by us, and comes with the headers of that
}

func marksDelivery(headers http.Header) bool {
	for name := range headers {
		if core.MarksDelivery(name) {
			return true
		}
	}
	return false
}

// reserved reads a header with core.HeaderPrefix.
func (p *published) reserved(lower string, values []string) error {
	name := strings.ReplaceAll(lower, "_", "-")
	if strings.HasPrefix(name, headerOfMessage) {
		return p.forward(lower[len(headerOfMessage):], values)
	}
	if delivery := core.DeliveryHeader(name); p.again && delivery != "" {
		if delivery == core.HeaderID && len(values) == 1 {
			p.message.ID, p.given = values[0], p.given|fieldID // core makes it one of its own
		}
		return p.forward(name, values)
	}
	f := fieldOf([]byte(strings.ReplaceAll(name[len(core.HeaderPrefix):], "-", "_")))
	if f&publishFields == 0 {
		return core.Invalidf(plain(lower, maxEcho), "is not a known header")
	}
	if p.given&f != 0 || len(values) != 1 {
		return core.Invalidf(name, "appears twice")
	}
	p.given |= f
	return p.read(f, values[0])
}

const publishFields = fieldID | fieldKey | fieldPriority | whenFields | fieldTTL | fieldExpiresAt

func (p *published) read(f field, value string) (err error) {
	m := &p.message
	switch f {
	case fieldID:
		m.ID = value
		if value == "" {
			err = core.Invalidf("id", "is empty")
		}
	case fieldKey:
		m.Key = []byte(value)
	case fieldPriority:
		m.Priority, err = priorityField(value)
	case fieldDelay:
		m.Delay, err = durationField("delay", value)
	case fieldDeliverAt:
		m.DeliverAt, err = timeField("deliver_at", value)
	case fieldTTL:
		if m.TTL, err = durationField("ttl", value); err == nil {
			err = checkTTL(m.TTL)
		}
	case fieldExpiresAt:
		m.ExpiresAt, err = timeField("expires_at", value)
	}
	return err
}

// forward gives the message a header, once for each value.
func (p *published) forward(name string, values []string) error {
	for _, h := range p.message.Headers {
		if h.Name == name {
			return core.Invalidf("headers", "have the name %s in two ways", echo(name))
		}
	}
	for _, value := range values {
		p.message.Headers = append(p.message.Headers, core.Header{Name: name, Value: []byte(value)})
	}
	return nil
}

// finish brings the headers into an order that is the same each time: a repeat
// with another order would be other content.
func (p *published) finish() (*core.Message, error) {
	slices.SortStableFunc(p.message.Headers, func(a, b core.Header) int { return strings.Compare(a.Name, b.Name) })
	e := envelope{given: p.given}
	if err := e.checkPairs(); err != nil {
		return nil, err
	}
	return &p.message, nil
}
