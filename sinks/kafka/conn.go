package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// conn is one connection to a broker, ready for requests: one at a time, by one
// goroutine. A goroutine of its own reads all the time, so that an end of the
// connection is noticed at once and not at the next request.
type conn struct {
	*kafkaconn.Conn
	idleTime time.Duration

	lastID  int32
	awaited chan exchange // the request whose answer comes next

	idle    *time.Timer
	release func() bool // lets go of the client's context
	once    sync.Once
	closed  atomic.Bool
	dead    chan struct{} // closed when reading has ended, with err set
	err     error
}

// exchange is a request under way.
type exchange struct {
	id      int32
	key     protocol.ApiKey
	version int16
	answer  chan protocol.Message
}

// unsentError is an error that struck before the whole request had left us. The
// broker acts on whole requests only, so it has not acted on this one.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return "not sent: " + e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

var (
	errUnasked  = errors.New("broker sent an unexpected answer")
	errNoAnswer = errors.New("broker did not answer in time")
)

func newConn(c *kafkaconn.Conn, idleTime time.Duration) *conn {
	return &conn{Conn: c, idleTime: idleTime, awaited: make(chan exchange, 1), dead: make(chan struct{})}
}

// usable reports whether a request may be tried on c.
func (c *conn) usable() bool {
	if c == nil || c.closed.Load() || c.Expired() {
		return false
	}
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// roundTrip sends a request and returns the answer. An *unsentError means that
// the broker has not acted on it; any other error that it may have. After an
// error the connection is of no more use, and closed.
func (c *conn) roundTrip(ctx context.Context, request protocol.Message, timeout time.Duration) (protocol.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoAnswer)
	defer cancel()
	c.idle.Stop()
	answer, err := c.exchange(ctx, request)
	if err != nil {
		c.close()
		return nil, err
	}
	c.idle.Reset(c.idleTime)
	return answer, nil
}

func (c *conn) exchange(ctx context.Context, request protocol.Message) (protocol.Message, error) {
	c.lastID++
	x := exchange{id: c.lastID, key: request.ApiKey(), version: c.Versions[request.ApiKey()], answer: make(chan protocol.Message, 1)}
	select {
	case c.awaited <- x:
	case <-c.dead:
		return nil, &unsentError{c.err}
	}
	if err := c.write(ctx, x.id, request); err != nil {
		return nil, &unsentError{err}
	}
	select {
	case answer := <-x.answer:
		return answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.dead:
	}
	select {
	case answer := <-x.answer: // the last thing that was read
		return answer, nil
	default:
		return nil, fmt.Errorf("connection lost: %w", c.err)
	}
}

// write returns nil when the whole request has been handed to the system.
func (c *conn) write(ctx context.Context, id int32, request protocol.Message) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.Raw.SetWriteDeadline(deadline); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, c.close)
	err := c.Send(request, id)
	if !stop() && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// read hands answers to those who wait for them, until the connection ends.
func (c *conn) read() {
	defer close(c.dead)
	defer c.close()
	for c.err == nil {
		c.err = c.readOne()
	}
}

func (c *conn) readOne() error {
	if _, err := c.Stream.Peek(1); err != nil {
		return err
	}
	var x exchange
	select {
	case x = <-c.awaited:
	default:
		return errUnasked
	}
	id, answer, err := protocol.ReadResponse(c.Stream, x.key, x.version)
	switch {
	case err != nil:
		return err
	case id != x.id:
		return errUnasked
	}
	x.answer <- answer
	return nil
}

// close ends the connection at once. A request under way fails.
func (c *conn) close() {
	c.once.Do(func() {
		c.closed.Store(true)
		c.idle.Stop()
		c.release()
		c.Raw.Close()
	})
}

// isEOF reports whether the broker has ended the connection without a word.
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
