package grpclistener

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// wire reads a request to publish into few pieces of memory, and no more of it
// than may be accepted: of messages, headers and options it takes one more than is
// allowed, so that they are refused, and leaves out the rest, which can be two
// bytes each and take a hundred in memory. Fields that are not known are left out.
// Its methods return false for what is not the protobuf that is asked for. The
// encoding is that of https://protobuf.dev/programming-guides/encoding.
type wire struct {
	raw  []byte
	text string // the same, for the strings to share

	maxMessages, maxHeaders int

	count int // of messages

	// What is left of the pieces.
	headers   []bridgev1.Header
	pointers  []*bridgev1.Header // of all messages so far, to headers
	durations []durationpb.Duration
	moments   []timestamppb.Timestamp
}

func newWire(raw []byte, maxMessages, maxHeaders int) *wire {
	return &wire{raw: raw, text: string(raw), maxMessages: maxMessages, maxHeaders: maxHeaders}
}

// Types of fields, which stand in the last three bits of a tag.
const (
	varintField = 0
	bytesField  = 2
)

// field is one field: a varint's value, or where its bytes are.
type field struct {
	tag      uint64
	value    uint64
	from, to int
}

// next reads the field at a position; its end is the position of the next. Of a
// field that is neither a varint nor bytes, only the tag and the end are told.
func (w *wire) next(at, end int) (f field, ok bool) {
	number, kind, n := protowire.ConsumeTag(w.raw[at:end])
	if n < 0 || number > protowire.MaxValidNumber {
		return f, false
	}
	at += n
	f.tag = protowire.EncodeTag(number, kind)
	switch kind {
	case varintField:
		f.value, n = protowire.ConsumeVarint(w.raw[at:end])
		f.from = at + n
	case bytesField:
		size, head := protowire.ConsumeVarint(w.raw[at:end])
		if head < 0 || size > uint64(end-at-head) {
			return f, false
		}
		f.from, n = at+head, head+int(size)
	default:
		n = protowire.ConsumeFieldValue(number, kind, w.raw[at:end])
	}
	f.to = at + n
	return f, n >= 0
}

// each has read take every field between two positions.
func (w *wire) each(from, end int, read func(field) bool) bool {
	for from < end {
		f, ok := w.next(from, end)
		if !ok || !read(f) {
			return false
		}
		from = f.to
	}
	return true
}

const (
	requestSequence = 1<<3 | varintField
	streamMessages  = 2<<3 | bytesField // of a PublishStreamRequest
	publishMessages = 1<<3 | bytesField // of a PublishRequest
)

// request reads a request whose messages have the tag.
func (w *wire) request(tag uint64, sequence *uint64) ([]*bridgev1.Message, bool) {
	if !w.each(0, len(w.raw), func(f field) bool {
		if f.tag == tag {
			w.count++
		}
		return true
	}) {
		return nil, false
	}
	w.count = min(w.count, w.maxMessages+1)
	pointers, messages := make([]*bridgev1.Message, 0, w.count), make([]bridgev1.Message, w.count)
	return pointers, w.each(0, len(w.raw), func(f field) bool {
		switch {
		case f.tag == requestSequence && tag == streamMessages:
			*sequence = f.value
		case f.tag == tag && len(pointers) < w.count:
			m := &messages[len(pointers)]
			pointers = append(pointers, m)
			return w.each(f.from, f.to, func(f field) bool { return w.message(m, f) })
		}
		return true
	})
}

// message takes one field of a message. Numbers are those in bridge.proto.
func (w *wire) message(m *bridgev1.Message, f field) (ok bool) {
	switch f.tag {
	case 1<<3 | bytesField:
		m.Id, ok = w.string(f)
	case 2<<3 | bytesField:
		m.Sink, ok = w.string(f)
	case 3<<3 | bytesField:
		m.Topic, ok = w.string(f)
	case 4<<3 | bytesField:
		m.Key, ok = w.bytes(f), true
	case 5<<3 | bytesField:
		ok = w.header(m, f)
	case 6<<3 | bytesField:
		m.Body, ok = w.bytes(f), true
	case 7<<3 | bytesField:
		ok = w.option(m, f)
	case 8<<3 | varintField:
		m.Priority, ok = int32(f.value), true
	default:
		ok = w.time(m, f)
	}
	return ok
}

func (w *wire) time(m *bridgev1.Message, f field) bool {
	ok := true
	switch f.tag {
	case 9<<3 | bytesField:
		m.Delay, ok = w.duration(m.Delay, f)
	case 10<<3 | bytesField:
		m.DeliverAt, ok = w.moment(m.DeliverAt, f)
	case 11<<3 | bytesField:
		m.Ttl, ok = w.duration(m.Ttl, f)
	case 12<<3 | bytesField:
		m.ExpiresAt, ok = w.moment(m.ExpiresAt, f)
	}
	return ok
}

func (w *wire) string(f field) (string, bool) {
	s := w.text[f.from:f.to]
	return s, utf8.ValidString(s)
}

func (w *wire) bytes(f field) []byte { return w.raw[f.from:f.to:f.to] }

func (w *wire) header(m *bridgev1.Message, f field) bool {
	if len(m.Headers) > w.maxHeaders {
		return true
	}
	h := one(&w.headers, w.piece())
	w.pointers = append(w.pointers, h) // behind those of the same message
	n := len(w.pointers)
	m.Headers = w.pointers[n-len(m.Headers)-1 : n : n]
	return w.each(f.from, f.to, func(f field) bool {
		ok := true
		switch f.tag {
		case 1<<3 | bytesField:
			h.Name, ok = w.string(f)
		case 2<<3 | bytesField:
			h.Value = w.bytes(f)
		}
		return ok
	})
}

func (w *wire) option(m *bridgev1.Message, f field) bool {
	var name, value string
	read := w.each(f.from, f.to, func(f field) bool {
		ok := true
		switch f.tag {
		case 1<<3 | bytesField:
			name, ok = w.string(f)
		case 2<<3 | bytesField:
			value, ok = w.string(f)
		}
		return ok
	})
	if m.Options == nil {
		m.Options = make(map[string]string)
	}
	if _, known := m.Options[name]; known || len(m.Options) <= core.MaxOptions {
		m.Options[name] = value
	}
	return read
}

// duration is the value of a field; a second is merged with the first.
func (w *wire) duration(d *durationpb.Duration, f field) (*durationpb.Duration, bool) {
	if d == nil {
		d = one(&w.durations, w.piece())
	}
	return d, w.each(f.from, f.to, func(f field) bool { return instant(&d.Seconds, &d.Nanos, f) })
}

func (w *wire) moment(t *timestamppb.Timestamp, f field) (*timestamppb.Timestamp, bool) {
	if t == nil {
		t = one(&w.moments, w.piece())
	}
	return t, w.each(f.from, f.to, func(f field) bool { return instant(&t.Seconds, &t.Nanos, f) })
}

// instant takes one field of a Duration or a Timestamp.
func instant(seconds *int64, nanos *int32, f field) bool {
	switch f.tag {
	case 1<<3 | varintField:
		*seconds = int64(f.value)
	case 2<<3 | varintField:
		*nanos = int32(f.value)
	}
	return true
}

// piece is how many to make at once: about what the messages need, and no more
// than a request could pay for that has many messages and one header.
func (w *wire) piece() int { return min(w.count, 128) }

// one is the next of a piece, or of a new piece with n.
func one[T any](piece *[]T, n int) *T {
	if len(*piece) == 0 {
		*piece = make([]T, n)
	}
	first := &(*piece)[0]
	*piece = (*piece)[1:]
	return first
}
