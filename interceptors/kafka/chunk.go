package kafkasource

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// chunk is what is parked at once, of one batch of records or of several. Its
// memory is used again and again: the store keeps none of it.
type chunk struct {
	*partition
	items    []source.Item
	messages []core.Message
	origins  []origin
	size     int   // bytes of records
	upTo     int64 // offset after the last record
	epoch    int32 // of that record
	of       topicID

	headers  []core.Header // of all origins and messages
	most     int           // headers that a record may have and be read
	heard    []dialect.Header
	unpacked []byte // the last batch that was compressed, the next may follow it
	memory   []byte // that unpacked began in
	taken    int    // of the budget for that
	names    source.Names
	text     []byte // to make IDs in
}

// origin is where an item comes from, for the reject topic.
type origin struct {
	record
	last int64 // offset of the last record that it stands for
}

const (
	// maxChunkBytes bounds the records that are parked at once, but for the last.
	maxChunkBytes = 1 << 20
	// maxChunkHeaders does so for their headers, as an empty one takes 2 bytes in
	// the record and 40 here.
	maxChunkHeaders = 64 << 10
	// leastHeaders is how many headers a record may have at least and be read.
	leastHeaders = 1024
	// schedulingHeaders is more than there are headers about scheduling, which
	// are not among those that core counts.
	schedulingHeaders = 64
	// keptBytes bounds the memory that is kept to be used again.
	keptBytes = 4 << 20
	// unpackingBytes is what a page may take to be unpacked, but for a batch that is
	// larger than keptBytes: one such, and another that is not parked to its end.
	unpackingBytes = 2 * keptBytes
)

// kept returns memory to be used again, or nil if it is too much to keep.
func kept(b []byte) []byte {
	if cap(b) > keptBytes {
		return nil
	}
	return b[:0]
}

func newChunk(most, maxHeaders int) *chunk {
	return &chunk{names: make(source.Names), messages: make([]core.Message, most),
		items: make([]source.Item, 0, most), origins: make([]origin, 0, most),
		most: max(leastHeaders, maxHeaders+schedulingHeaders)}
}

// park parks the records of a page. An error means that some may be left.
func (c *chunk) park(ctx context.Context, pg *page) error {
	filter := newFilter(pg.aborted)
	c.of, c.upTo, c.epoch = pg.topicID, pg.offset, pg.epoch
	for rest := pg.records; len(rest) > 0; {
		b, after, err := nextBatch(rest)
		if err != nil {
			return err // fetched pages have whole batches
		}
		rest = after
		if b.last < pg.offset || filter.drops(&b) {
			c.upTo, c.epoch = b.last+1, b.epoch
			continue
		}
		if err := c.add(ctx, &b, pg.offset); err != nil {
			return err
		}
		c.upTo, c.epoch = b.last+1, b.epoch
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	c.reuse()
	return nil
}

// add adds the records of a batch from offset on, and parks what gets too much.
func (c *chunk) add(ctx context.Context, b *batch, offset int64) error {
	records, err := c.open(ctx, b)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isTooLarge(err) && b.size <= c.settings.maxBatchBytes:
		return c.addLarge(ctx, b, offset)
	case err != nil:
		return c.refuse(ctx, b, offset, err)
	}
	return c.addRecords(ctx, b, offset, records)
}

// addLarge adds a batch that takes much memory without compression, which only one
// partition may use at a time; it lets go of it then.
func (c *chunk) addLarge(ctx context.Context, b *batch, offset int64) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	taken, err := c.large.take(ctx, 1)
	if err != nil {
		return err
	}
	defer c.large.give(taken)
	records, err := c.unpacker.unpack(b, nil)
	if err != nil {
		return c.refuse(ctx, b, offset, err)
	}
	if err := c.addRecords(ctx, b, offset, records); err != nil {
		return err
	}
	return c.flush(ctx)
}

func (c *chunk) addRecords(ctx context.Context, b *batch, offset int64, records []byte) error {
	s := scanner{rest: records}
	for range b.count {
		r := record{headers: c.headers}
		before, left := len(c.headers), len(s.rest)
		if !b.next(&s, &r, c.names, c.most) {
			return c.refuse(ctx, b, max(offset, c.upTo), errDamaged)
		}
		if r.offset < offset {
			c.headers = r.headers[:before]
			continue
		}
		c.headers = r.headers
		r.headers = r.headers[before:len(r.headers):len(r.headers)]
		c.addRecord(r)
		c.size += left - len(s.rest)
		if c.full() {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chunk) full() bool {
	return len(c.items) == cap(c.items) || c.size >= maxChunkBytes || len(c.headers) >= maxChunkHeaders
}

// open returns the records of a batch, or why they can't be had.
func (c *chunk) open(ctx context.Context, b *batch) (_ []byte, err error) {
	if b.size > c.settings.maxBatchBytes {
		return nil, tooLarge(c.settings.maxBatchBytes)
	}
	if !b.compressed() {
		return b.records, nil
	}
	if len(c.items) == 0 { // nothing is in that memory any more
		c.reuse()
	}
	if c.taken == 0 {
		if c.taken, err = c.unpacking.take(ctx, unpackingBytes); err != nil {
			return nil, err
		}
	}
	unpacked, err := c.smallUnpacker.unpack(b, c.unpacked[len(c.unpacked):])
	c.unpacked = unpacked
	if cap(unpacked) > cap(c.memory) {
		c.memory = unpacked
	}
	return unpacked, err
}

func (c *chunk) reuse() {
	c.memory = kept(c.memory)
	c.unpacked = c.memory
}

// addRecord makes a message of r, or a refusal.
func (c *chunk) addRecord(r record) {
	n := len(c.items)
	m := &c.messages[n]
	*m = core.Message{Key: r.key, Body: r.value}
	c.heard = c.heard[:0]
	for n := range r.headers {
		h := &r.headers[n]
		c.heard = append(c.heard, dialect.Header{Name: h.Name, Value: &h.Value})
	}
	from := source.Source{Topic: c.topic, Sent: r.sent, ID: c.idOf(&r)}
	rest, err := c.rules.Apply(m, from, c.heard)
	c.rules.CountFrom(m, from.Sent)
	switch {
	case r.crowded:
		err = c.tooManyHeaders()
	case len(rest) == 0:
	case len(rest) == len(r.headers):
		m.Headers = r.headers
	default:
		before := len(c.headers)
		for _, at := range rest {
			c.headers = append(c.headers, r.headers[at])
		}
		m.Headers = c.headers[before:len(c.headers):len(c.headers)]
	}
	c.items = append(c.items, source.Item{Message: m, Err: err})
	c.origins = append(c.origins, origin{record: r, last: r.offset})
	c.upTo, c.epoch = r.offset+1, r.epoch
}

// tooManyHeaders is what core says of such a message.
func (c *chunk) tooManyHeaders() error {
	err := core.Invalidf("headers", "are more than %d", c.parker.In.Limits().MaxHeaders)
	err.TooLarge = true
	return err
}

// idOf is the ID of the message that r becomes. With the position goes what tells
// r from a record that had the same before: when a topic was deleted and recreated,
// or when a log was cut, offsets are given again. All of it is written in the log
// once and copied from leader to leader, so r has it whoever reads it again.
func (c *chunk) idOf(r *record) string {
	put := binary.BigEndian
	c.text = append(c.text[:0], c.of[:]...)
	c.text = put.AppendUint32(c.text, uint32(r.epoch))
	c.text = put.AppendUint64(c.text, uint64(r.sent.UnixMilli()))
	var sums [8]byte
	put.PutUint32(sums[:], crc32.Checksum(c.text, castagnoli))
	put.PutUint32(sums[4:], r.content)
	c.text = strconv.AppendInt(append(c.text[:0], c.id...), r.offset, 10)
	c.text = hex.AppendEncode(append(c.text, ':'), sums[:])
	return string(c.text)
}

// refuse adds what of a batch can't be read as one item.
func (c *chunk) refuse(ctx context.Context, b *batch, offset int64, reason error) error {
	if _, ok := errors.AsType[*core.InvalidError](reason); !ok {
		reason = fmt.Errorf("batch: %w", reason)
	}
	if len(c.items) == cap(c.items) {
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	r := record{offset: max(b.first, offset), epoch: b.epoch, content: b.checksum, sent: timeOf(b.lastTime)}
	m := &c.messages[len(c.items)]
	*m = core.Message{ID: c.idOf(&r)}
	c.items = append(c.items, source.Item{Message: m, Err: reason})
	c.origins = append(c.origins, origin{record: r, last: b.last})
	return nil
}

// flush parks what there is and marks how far that is.
func (c *chunk) flush(ctx context.Context) error {
	if len(c.items) > 0 {
		if err := c.parker.Park(ctx, c.items, c.rejectTo(), c.at); err != nil {
			return err
		}
		c.Sent(c.origins[len(c.origins)-1].sent)
	}
	c.done(position{topicID: c.of, point: point{c.upTo, c.epoch}})
	c.empty()
	return nil
}

// empty lets go of all memory that is not the chunk's own, too.
func (c *chunk) empty() {
	clear(c.messages[:len(c.items)])
	clear(c.items)
	clear(c.origins)
	c.items, c.origins, c.size = c.items[:0], c.origins[:0], 0
	clear(c.headers)
	c.headers = c.headers[:0]
}

// at names the record that an item comes from.
func (c *chunk) at(index int) string {
	return fmt.Sprintf("topic %s, partition %d, offset %d", c.topic, c.number, c.origins[index].offset)
}

func (c *chunk) rejectTo() func(context.Context, []source.Rejection) error {
	if c.rejecter == nil {
		return nil
	}
	return func(ctx context.Context, rejected []source.Rejection) error {
		return c.rejecter.write(ctx, c.partition, c.origins, rejected)
	}
}
