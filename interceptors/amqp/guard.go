package amqpsource

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// guard reads frames and takes out tables of headers that the library can't
// read. RabbitMQ takes them, and the library ends the connection at each: one
// such message would hold up its queue for ever.
type guard struct {
	net.Conn
	in      *bufio.Reader
	ready   []byte // read, and to be handed on
	passing int    // bytes of the frame under way that are handed on as they come
}

func newGuard(conn net.Conn) *guard {
	return &guard{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
}

// headerUnreadable is what such a message has for headers.
const headerUnreadable = core.HeaderPrefix + "unreadable"

const (
	frameHeadLen      = 7 // type, channel, size
	frameContentType  = 2 // of a frame with the properties of a message
	propertiesAt      = 14
	flagContentType   = 1 << 15
	flagEncoding      = 1 << 14
	flagHeaders       = 1 << 13
	maxDepth          = 32 // as in the library
	maxContainerItems = 8192
)

func (g *guard) Read(p []byte) (int, error) {
	if len(g.ready) == 0 && g.passing == 0 {
		if err := g.begin(); err != nil {
			return 0, err
		}
	}
	if len(g.ready) > 0 {
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(len(p), g.passing)])
	g.passing -= n
	return n, err
}

// begin begins the next frame.
func (g *guard) begin() error {
	head := make([]byte, frameHeadLen)
	if _, err := io.ReadFull(g.in, head); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[3:]))
	if head[0] != frameContentType || size > amqp.FrameSize {
		g.ready, g.passing = head, size+1 // and a mark for its end
		return nil
	}
	frame := make([]byte, frameHeadLen+size+1)
	copy(frame, head)
	if _, err := io.ReadFull(g.in, frame[frameHeadLen:]); err != nil {
		return err
	}
	g.ready = withReadableTable(frame)
	return nil
}

// withReadableTable returns the frame as it is, or with another table.
func withReadableTable(frame []byte) []byte {
	payload := frame[frameHeadLen : len(frame)-1]
	at, end, ok := findTable(payload)
	if !ok || isTable(payload[at+4:end], 0) {
		return frame
	}
	table := append([]byte{0, 0, 0, 0, byte(len(headerUnreadable))}, headerUnreadable...)
	table = append(table, 'V')
	binary.BigEndian.PutUint32(table, uint32(len(table)-4))
	made := append(append(append([]byte{}, frame[:frameHeadLen+at]...), table...), frame[frameHeadLen+end:]...)
	binary.BigEndian.PutUint32(made[3:], uint32(len(made)-frameHeadLen-1))
	return made
}

// findTable returns where the table of headers begins, with its length, and
// ends. Without one, ok is false.
func findTable(payload []byte) (at, end int, ok bool) {
	if len(payload) < propertiesAt {
		return 0, 0, false
	}
	flags := int(binary.BigEndian.Uint16(payload[propertiesAt-2:]))
	at = propertiesAt
	for _, before := range []int{flagContentType, flagEncoding} {
		if flags&before != 0 && at < len(payload) {
			at += 1 + int(payload[at])
		}
	}
	if flags&flagHeaders == 0 || at+4 > len(payload) {
		return 0, 0, false
	}
	end = at + 4 + int(binary.BigEndian.Uint32(payload[at:]))
	return at, end, end <= len(payload)
}

// isTable reports whether the library can read a table.
func isTable(b []byte, depth int) bool {
	for n := 0; len(b) > 0; n++ {
		name := 1 + int(b[0])
		if n == maxContainerItems || name > len(b) {
			return false
		}
		var ok bool
		if b, ok = skipField(b[name:], depth); !ok {
			return false
		}
	}
	return depth <= maxDepth
}

func isList(b []byte, depth int) bool {
	for n := 0; len(b) > 0; n++ {
		var ok bool
		if b, ok = skipField(b, depth); !ok || n == maxContainerItems {
			return false
		}
	}
	return depth <= maxDepth
}

// skipField returns what comes after a value.
func skipField(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > maxDepth {
		return nil, false
	}
	kind, b := b[0], b[1:]
	size := 0
	switch kind {
	case 'V':
	case 't', 'b', 'B':
		size = 1
	case 's', 'u':
		size = 2
	case 'I', 'i', 'f':
		size = 4
	case 'D':
		size = 5
	case 'l', 'd', 'T':
		size = 8
	case 'S', 'x', 'F', 'A':
		return skipLong(kind, b, depth)
	default:
		return nil, false
	}
	if size > len(b) {
		return nil, false
	}
	return b[size:], true
}

// skipLong is for what has its length before it.
func skipLong(kind byte, b []byte, depth int) (rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	end := 4 + int(binary.BigEndian.Uint32(b))
	if end > len(b) {
		return nil, false
	}
	switch inner := b[4:end]; kind {
	case 'F':
		ok = isTable(inner, depth+1)
	case 'A':
		ok = isList(inner, depth+1)
	default:
		ok = true
	}
	return b[end:], ok
}

// isUnreadable reports whether a guard has taken the headers out.
func isUnreadable(d *amqp091.Delivery) bool {
	_, ok := d.Headers[headerUnreadable]
	return ok
}
