package rocketmqsource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// link is a connection to a broker or a name server, on which many requests may
// be under way. Safe for concurrent use.
type link struct {
	conn        net.Conn
	credentials *credentials
	patience    time.Duration // of a write
	notice      func(code int)

	write sync.Mutex
	frame []byte // memory of the last one, with write

	mu      sync.Mutex
	waiting map[int32]chan *reply
	opaque  int32
	ended   chan struct{}
	err     error // once ended is closed
}

var errClosed = errors.New("connection is closed")

const (
	readBuffer = 64 << 10
	keptFrame  = 64 << 10
)

// newLink takes over conn. Its read must be run.
func newLink(conn net.Conn, s *settings, notice func(code int)) *link {
	return &link{conn: conn, credentials: &s.credentials, patience: s.requestTimeout, notice: notice,
		waiting: make(map[int32]chan *reply), ended: make(chan struct{})}
}

// read hands out what comes, until the connection ends.
func (l *link) read() {
	from := bufio.NewReaderSize(l.conn, readBuffer)
	for {
		r, err := readFrame(from)
		if err != nil {
			l.fail(fmt.Errorf("read from %s: %w", l.conn.RemoteAddr(), err))
			return
		}
		if r.Flag&flagReply == 0 {
			l.asked(r)
			continue
		}
		l.mu.Lock()
		answer := l.waiting[r.Opaque]
		delete(l.waiting, r.Opaque)
		l.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
}

// asked is for what the broker asks of us. It gets an answer, so that its tools
// need not wait for one.
func (l *link) asked(r *reply) {
	l.notice(r.Code)
	if r.Flag&flagOneway == 0 {
		h := header{Code: codeNotSupported, Language: "GO", Version: protocolVersion, Opaque: r.Opaque, Flag: flagReply, Remark: "not supported"}
		_ = l.send(h, nil) // if that fails the link is broken, which others see
	}
}

// fail ends the link, the first time.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.ended)
		l.conn.Close()
	}
}

func (l *link) broken() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// ask returns the answer to a request, whatever its code. It returns when ctx
// ends, or the link.
func (l *link) ask(ctx context.Context, q request) (*reply, error) {
	answer := make(chan *reply, 1)
	l.mu.Lock()
	l.opaque++
	opaque := l.opaque
	l.waiting[opaque] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiting, opaque)
		l.mu.Unlock()
	}()
	h := header{Code: q.code, Language: "GO", Version: protocolVersion, Opaque: opaque, Fields: l.credentials.sign(q.fields, q.body)}
	if err := l.send(h, q.body); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r, nil
	case <-l.ended:
		return nil, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s gives no answer: %w", l.conn.RemoteAddr(), context.Cause(ctx))
	}
}

// send writes a frame, and ends a link that does not take it.
func (l *link) send(h header, body []byte) error {
	l.write.Lock()
	defer l.write.Unlock()
	frame, err := appendFrame(l.frame[:0], h, body)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if cap(frame) <= keptFrame {
		l.frame = frame
	}
	if err = l.conn.SetWriteDeadline(time.Now().Add(l.patience)); err == nil {
		_, err = l.conn.Write(frame)
	}
	if err != nil {
		err = fmt.Errorf("write to %s: %w", l.conn.RemoteAddr(), err)
		l.fail(err)
	}
	return err
}
