package grpcdoor

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// wire reads a request of the publish stream as clients commonly write it, into
// few pieces of memory. At whatever else, such as a field that is not known, it
// gives up: its methods return false, and the library is to read the request.
// The encoding is that of https://protobuf.dev/programming-guides/encoding.
type wire struct {
	raw  []byte
	text string // the same, for the strings to share

	count int // of messages

	// What is left of the pieces.
	headers   []bridgev1.Header
	pointers  []*bridgev1.Header // of all messages so far, to headers
	durations []durationpb.Duration
	moments   []timestamppb.Timestamp
}

func newWire(raw []byte) *wire { return &wire{raw: raw, text: string(raw)} }

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

// next reads the field at a position; its end is the position of the next.
func (w *wire) next(at, end int) (f field, ok bool) {
	tag, n := protowire.ConsumeVarint(w.raw[at:end])
	if n < 0 {
		return f, false
	}
	at += n
	value, n := protowire.ConsumeVarint(w.raw[at:end])
	if n < 0 {
		return f, false
	}
	at += n
	switch tag % 8 {
	case varintField:
		return field{tag, value, at, at}, true
	case bytesField:
		if value <= uint64(end-at) {
			return field{tag, 0, at, at + int(value)}, true
		}
	}
	return f, false
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
	requestMessages = 2<<3 | bytesField
)

func (w *wire) request(r *bridgev1.PublishStreamRequest) bool {
	n := 0
	if !w.each(0, len(w.raw), func(f field) bool {
		if f.tag == requestMessages {
			n++
		}
		return true
	}) {
		return false
	}
	r.Reset()
	r.Messages = make([]*bridgev1.Message, 0, n)
	messages := make([]bridgev1.Message, n)
	w.count = n
	return w.each(0, len(w.raw), func(f field) bool {
		switch f.tag {
		case requestSequence:
			r.Sequence = f.value
			return true
		case requestMessages:
			m := &messages[len(r.Messages)]
			r.Messages = append(r.Messages, m)
			return w.each(f.from, f.to, func(f field) bool { return w.message(m, f) })
		}
		return false
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

func (w *wire) time(m *bridgev1.Message, f field) (ok bool) {
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
	h := one(&w.headers, w.piece())
	w.pointers = append(w.pointers, h) // behind those of the same message
	n := len(w.pointers)
	m.Headers = w.pointers[n-len(m.Headers)-1 : n : n]
	return w.each(f.from, f.to, func(f field) (ok bool) {
		switch f.tag {
		case 1<<3 | bytesField:
			h.Name, ok = w.string(f)
		case 2<<3 | bytesField:
			h.Value, ok = w.bytes(f), true
		}
		return ok
	})
}

func (w *wire) option(m *bridgev1.Message, f field) bool {
	var name, value string
	read := w.each(f.from, f.to, func(f field) (ok bool) {
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
	m.Options[name] = value
	return read
}

// duration is the value of a field that must not have one: a second would be
// merged with the first.
func (w *wire) duration(already *durationpb.Duration, f field) (*durationpb.Duration, bool) {
	d := one(&w.durations, w.piece())
	return d, already == nil && w.each(f.from, f.to, func(f field) bool { return instant(&d.Seconds, &d.Nanos, f) })
}

func (w *wire) moment(already *timestamppb.Timestamp, f field) (*timestamppb.Timestamp, bool) {
	t := one(&w.moments, w.piece())
	return t, already == nil && w.each(f.from, f.to, func(f field) bool { return instant(&t.Seconds, &t.Nanos, f) })
}

// instant takes one field of a Duration or a Timestamp.
func instant(seconds *int64, nanos *int32, f field) bool {
	switch f.tag {
	case 1<<3 | varintField:
		*seconds = int64(f.value)
	case 2<<3 | varintField:
		*nanos = int32(f.value)
	default:
		return false
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
