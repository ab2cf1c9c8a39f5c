package rocketmqsource

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// chunk is what is parked at once. Its memory is used again and again: the
// store keeps none of it.
type chunk struct {
	*queue
	items    []source.Item
	messages []core.Message
	records  []record // what items come from, for the reject topic
	size     int      // bytes of bodies
	upTo     int64    // offset after the last message; -1 is nothing new

	headers []core.Header // of all messages
	heard   []dialect.Header
	names   source.Names
	text    []byte // to make IDs in
}

// maxChunkBytes bounds the bodies that are parked at once, but for the last.
const maxChunkBytes = 1 << 20

func newChunk(q *queue) *chunk {
	most := q.settings.batch
	return &chunk{queue: q, upTo: -1, names: make(source.Names), messages: make([]core.Message, most),
		items: make([]source.Item, 0, most), records: make([]record, 0, most)}
}

// add adds the messages of a page, and parks what gets too much. An error means
// that some may be left.
func (c *chunk) add(ctx context.Context, p page) error {
	for rest := p.messages; len(rest) > 0; {
		r, after, err := nextRecord(rest)
		if err != nil {
			return fmt.Errorf("topic %s, broker %s, queue %d, before offset %d: %w", c.topic, c.broker, c.number, p.next, err)
		}
		rest = after
		c.addRecord(r)
		if len(c.items) == cap(c.items) || c.size >= maxChunkBytes {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
	}
	c.upTo = p.next
	return nil
}

// addRecord makes a message of r, or a refusal, if its tag is wanted: brokers
// compare hashes of tags only.
func (c *chunk) addRecord(r record) {
	c.upTo = r.offset + 1
	p, headers := sortProperties(r.properties, c.headers, c.names)
	if !c.settings.wants(p.tags) {
		return
	}
	c.headers = headers
	m := &c.messages[len(c.items)]
	*m = core.Message{Key: p.sharding}
	err := c.fill(m, &r, &p)
	c.items = append(c.items, source.Item{Message: m, Err: err})
	c.records = append(c.records, r)
	c.size += len(m.Body)
}

func (s *settings) wants(tag []byte) bool {
	return len(s.tags) == 0 || slices.Contains(s.tags, string(tag))
}

func (c *chunk) fill(m *core.Message, r *record, p *properties) (err error) {
	from := source.Source{Topic: c.topic, Sent: r.sent(), ID: c.idOf(r)}
	if m.Body, err = r.content(c.parker.In.Limits().MaxBody); err != nil {
		m.ID = from.ID
		return err
	}
	c.heard = c.heard[:0]
	for n := range p.headers {
		h := &p.headers[n]
		c.heard = append(c.heard, dialect.Header{Name: h.Name, Value: &h.Value})
	}
	rules := c.rules
	if p.waited {
		rules = c.waited
	}
	rest, err := rules.Apply(m, from, c.heard)
	rules.CountFrom(m, from.Sent)
	p.forgetDelivery(m.Hop)
	c.setHeaders(m, p.headers, rest)
	c.setOptions(m, p)
	return err
}

func (c *chunk) setHeaders(m *core.Message, all []core.Header, rest []int) {
	switch len(rest) {
	case 0:
		return
	case len(all):
		m.Headers = all
		return
	}
	before := len(c.headers)
	for _, at := range rest {
		c.headers = append(c.headers, all[at])
	}
	m.Headers = c.headers[before:len(c.headers):len(c.headers)]
}

// setOptions keeps keys and tags: as the options of a RocketMQ sink, or as
// headers for any other.
func (c *chunk) setOptions(m *core.Message, p *properties) {
	if len(p.keys) == 0 && len(p.tags) == 0 {
		return
	}
	if c.settings.asHeaders {
		for _, h := range []core.Header{{Name: propertyKeys, Value: p.keys}, {Name: propertyTags, Value: p.tags}} {
			if len(h.Value) > 0 {
				m.Headers = append(m.Headers, h)
			}
		}
		return
	}
	m.Options = make(map[string]string, 2)
	for _, o := range []struct {
		name  string
		value []byte
	}{{"keys", p.keys}, {"tags", p.tags}} {
		if len(o.value) > 0 {
			m.Options[o.name] = string(o.value)
		}
	}
}

// idOf is the ID of the message that r becomes. With the position goes the time,
// as a broker that has lost its last messages gives their offsets to others.
func (c *chunk) idOf(r *record) string {
	c.text = strconv.AppendInt(append(c.text[:0], c.id...), r.offset, 10)
	c.text = strconv.AppendInt(append(c.text, ':'), r.stored, 36)
	return string(c.text)
}

// flush parks what there is and marks how far that is.
func (c *chunk) flush(ctx context.Context) error {
	if len(c.items) > 0 {
		if err := c.parker.Park(ctx, c.items, c.rejectTo(), c.at); err != nil {
			return err
		}
		c.Sent(c.records[len(c.records)-1].sent())
	}
	if c.upTo >= 0 {
		c.done(c.upTo)
	}
	clear(c.messages[:len(c.items)]) // which hold whole pages, as do the others
	clear(c.headers)
	clear(c.records)
	c.items, c.records, c.headers, c.size, c.upTo = c.items[:0], c.records[:0], c.headers[:0], 0, -1
	return nil
}

// at names the message that an item comes from.
func (c *chunk) at(index int) string {
	return fmt.Sprintf("topic %s, broker %s, queue %d, offset %d", c.topic, c.broker, c.number, c.records[index].offset)
}

func (c *chunk) rejectTo() func(context.Context, []source.Rejection) error {
	if c.rejecter == nil {
		return nil
	}
	return func(ctx context.Context, rejected []source.Rejection) error {
		return c.rejecter.write(ctx, c.place, c.records, rejected)
	}
}
