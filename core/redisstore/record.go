package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// A record is how a message lies in Redis:
//
//	format (1) │ priority·16 + flags (1) │ topic │ [key] │ [headers, options] │ body ║ [expiry 6] seq 5 kind 1
//	└────────────────────── payload: the content, made here ─────────────────┘ └─ added by park.lua ─┘
//
// Every later format keeps the frame: the first two bytes, and what park.lua adds.
// That is all that the scripts read of a record, so what is of a newer format can be
// found, cancelled and moved. What does not fit into the frame needs keys of its own.
//
// Lengths are unsigned varints; the body runs to the end of the payload. Equal
// content makes equal payloads, which is how park.lua tells most repeats from
// conflicts; so times, which a repeat may have again, are not in it, but for those
// in the options. With those, and with the headers of tracing, payloads differ by little,
// and sameContent tells.
const (
	recordFormat = 1
	// testFormat has one more byte behind the flags. No released version writes it.
	testFormat = 2

	flagKey    = 1 // a key follows the topic, maybe empty
	flagExtras = 2 // headers and options follow
	flagNoBody = 4 // the body is nil, not empty

	kindExpires   = 1 // expiry is there
	kindGenerated = 2 // the ID was made by us

	seqLen    = 5
	expiryLen = 6
	maxTail   = expiryLen + seqLen + 1
)

var (
	errRecord = errors.New("stored record is damaged")
	errNewer  = errors.New("stored record is of a newer format")
)

// inFormat puts a payload of format 1 into another.
func inFormat(payload []byte, format int) []byte {
	if format != testFormat {
		return payload
	}
	payload = slices.Insert(payload, 2, 0)
	payload[0] = testFormat
	return payload
}

// sameContent is nil if the record holds the content of the payload, in whatever format;
// core.ErrConflict if not, and core.ErrUnavailable if that can't be told here.
func sameContent(record, payload string, newest int) error {
	if err := newer(record, newest); err != nil {
		return fmt.Errorf("park: compare with the message that has this id: %w: %w", core.ErrUnavailable, err)
	}
	var stored, sent core.Message
	before, ok := cutTail(record, &stored)
	if !ok || decodePayload(before, &stored) != nil || decodePayload(payload, &sent) != nil || !core.SameContent(&stored, &sent) {
		return core.ErrConflict
	}
	return nil
}

// newer is errNewer if a record is of a format above the newest that is known.
func newer(record string, newest int) error {
	if record != "" && int(record[0]) > newest {
		return fmt.Errorf("%w: %d, and this version reads up to %d", errNewer, record[0], newest)
	}
	return nil
}

// appendPayload appends the payload of m.
func appendPayload(b []byte, m *core.Message) []byte {
	flags := byte(m.Priority) << 4
	if m.Key != nil {
		flags |= flagKey
	}
	if len(m.Headers) > 0 || len(m.Options) > 0 {
		flags |= flagExtras
	}
	if m.Body == nil {
		flags |= flagNoBody
	}
	b = append(b, recordFormat, flags)
	b = appendString(b, m.Topic)
	if m.Key != nil {
		b = appendString(b, m.Key)
	}
	if flags&flagExtras != 0 {
		b = appendExtras(b, m)
	}
	return append(b, m.Body...)
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendExtras writes headers with length+1 of the value, 0 being a nil value,
// then options sorted by name.
func appendExtras(b []byte, m *core.Message) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.Headers)))
	for _, h := range m.Headers {
		b = appendString(b, h.Name)
		if h.Value == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(h.Value))+1)
		b = append(b, h.Value...)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Options)))
	if len(m.Options) == 0 {
		return b
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		b = appendString(b, name)
		b = appendString(b, m.Options[name])
	}
	return b
}

// decodeRecord reads a whole record, of a format up to newest, into m. The byte
// slices of m are its own. Of a newer one it reads the frame and returns errNewer.
func decodeRecord(record string, newest int, m *core.Message) error {
	body, ok := cutTail(record, m)
	if !ok {
		return errRecord
	}
	if err := newer(record, newest); err != nil {
		return err
	}
	return decodePayload(body, m)
}

func decodePayload(payload string, m *core.Message) error {
	r := reader{rest: payload}
	flags := r.head(m)
	if r.bad {
		return errRecord
	}
	if flags&flagNoBody == 0 {
		m.Body = []byte(r.rest)
	}
	return nil
}

// cutTail reads what park.lua added behind the payload and returns the payload.
func cutTail(record string, m *core.Message) (payload string, ok bool) {
	if len(record) < seqLen+1 {
		return "", false
	}
	kind := record[len(record)-1]
	m.Generated = kind&kindGenerated != 0
	rest := record[:len(record)-seqLen-1]
	if kind&kindExpires == 0 {
		return rest, true
	}
	if len(rest) < expiryLen {
		return "", false
	}
	var ms int64
	for _, c := range []byte(rest[len(rest)-expiryLen:]) {
		ms = ms<<8 | int64(c)
	}
	m.ExpiresAt = time.UnixMilli(ms)
	return rest[:len(rest)-expiryLen], true
}

// peeked is a record of which only the ends were read, as peek.lua gives them.
type peeked struct {
	head, tail string
	size       int
}

// decode fills m but for the body, and returns the body's size.
func (p peeked) decode(newest int, m *core.Message) (bodySize int, err error) {
	tail, ok := cutTail(p.tail, m)
	if !ok {
		return 0, errRecord
	}
	if err := newer(p.head, newest); err != nil {
		return 0, err
	}
	payload := p.size - (len(p.tail) - len(tail))
	r := reader{rest: p.head[:min(len(p.head), payload)]}
	whole := len(r.rest)
	r.head(m)
	if r.bad {
		return 0, errRecord
	}
	return payload - (whole - len(r.rest)), nil
}

// reader consumes a payload from the front; bad is set by the first fault.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) head(m *core.Message) (flags byte) {
	if len(r.rest) > 2 && r.rest[0] == testFormat {
		r.rest = string(rune(recordFormat)) + r.rest[1:2] + r.rest[3:]
	}
	if len(r.rest) < 2 || r.rest[0] != recordFormat {
		r.bad = true
		return 0
	}
	flags = r.rest[1]
	m.Priority = int(flags >> 4)
	r.rest = r.rest[2:]
	m.Topic = r.text()
	if flags&flagKey != 0 {
		m.Key = []byte(r.text())
	}
	if flags&flagExtras != 0 {
		r.extras(m)
	}
	return flags
}

func (r *reader) extras(m *core.Message) {
	if n := r.count(); n > 0 {
		m.Headers = make([]core.Header, 0, n)
		for range n {
			h := core.Header{Name: r.text()}
			if size := r.number(); size > 0 {
				h.Value = []byte(r.bytes(size - 1))
			}
			m.Headers = append(m.Headers, h)
		}
	}
	if n := r.count(); n > 0 {
		m.Options = make(map[string]string, n)
		for range n {
			name := r.text()
			m.Options[name] = r.text()
		}
	}
}

func (r *reader) number() uint64 {
	n, size := uint64(0), 0
	for shift := 0; shift < 63; shift += 7 {
		if size == len(r.rest) {
			break
		}
		c := r.rest[size]
		size++
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			r.rest = r.rest[size:]
			return n
		}
	}
	r.bad = true
	return 0
}

// count is a number of parts, of which each takes a byte at least.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return r.bytes(r.number()) }

func (r *reader) bytes(n uint64) string {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// failure is an entry of the attempts hash: what went wrong with a message, and
// when it was to be delivered before retries moved it.
type failure struct {
	attempts  int
	deliverAt time.Time
	reason    string
	text      string
}

// String is the stored form: "attempts deliver_at reason\ntext".
func (f failure) String() string {
	return fmt.Sprintf("%d %d %s\n%s", f.attempts, f.deliverAt.UnixMilli(), f.reason, core.Shorten(f.text, core.MaxErrorText))
}

// parseFailure reads the stored form; an empty one is no failure yet, and the
// message is due when it was to be delivered.
func parseFailure(s string, due time.Time) failure {
	f := failure{deliverAt: due}
	line, text, _ := strings.Cut(s, "\n")
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 3 {
		return f
	}
	attempts, err1 := strconv.Atoi(parts[0])
	ms, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return f
	}
	return failure{attempts: attempts, deliverAt: time.UnixMilli(ms), reason: parts[2], text: text}
}

const (
	reasonExpired = "expired" // as core gives it with core.Expired
	reasonCrashed = "crashed" // as own.lua writes it
)

// state tells the state of a stored message from where it lies and how it failed.
func (f failure) state(place string) core.State {
	switch place {
	case "delivering":
		return core.Delivering
	case "delivered":
		return core.Delivered
	case "cancelled":
		return core.Cancelled
	case "discarded":
		return core.Discarded
	case "dead":
		if f.reason == reasonExpired {
			return core.Expired
		}
		return core.Dead
	}
	if f.reason != "" || f.attempts > 0 {
		return core.Retrying
	}
	return core.Scheduled
}
