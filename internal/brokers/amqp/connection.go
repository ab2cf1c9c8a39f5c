package amqp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Connection is a connection that can be cut, whatever the library waits for.
type Connection struct {
	*amqp091.Connection
	Addr string // host:port of the node
	raw  net.Conn
	seen *witness
}

// closeTimeout bounds a polite end of a connection; then it is cut.
const closeTimeout = time.Second

// Cut ends the connection at once.
func (c *Connection) Cut() { c.raw.Close() }

// IsClosed reports whether the connection is of no use any more. The library's answer comes
// some time after reading or writing has failed.
func (c *Connection) IsClosed() bool { return c.seen.failed.Load() || c.Connection.IsClosed() }

// Within calls f, which asks the broker something, and cuts the connection if
// ctx ends or limit is over before it has returned.
func (c *Connection) Within(ctx context.Context, limit time.Duration, f func() error) error {
	defer context.AfterFunc(ctx, c.Cut)()
	cut := time.AfterFunc(limit, c.Cut)
	defer cut.Stop()
	return f()
}

// Close ends the connection, politely if that is possible soon. channel, if not
// nil, is closed first: the broker has then taken all that was sent on it.
func (c *Connection) Close(channel *amqp091.Channel) {
	cut := time.AfterFunc(closeTimeout, c.Cut)
	defer cut.Stop()
	if channel != nil {
		_ = channel.Close() // an error means that it has ended in some other way
	}
	_ = c.CloseDeadline(time.Now().Add(closeTimeout)) // and here, too
	c.Cut()
}

// deadlineConn gives every write a deadline. The library has none, and holds
// locks while it writes: a broker that stops reading would hang publishers,
// acknowledgements, confirms and Close alike.
type deadlineConn struct {
	net.Conn
	timeout time.Duration
}

func (c deadlineConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// witness remembers that reading or writing has failed, and how reading did, which the
// library does not tell.
type witness struct {
	net.Conn
	failed atomic.Bool
	mu     sync.Mutex
	end    error // of reading
}

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.failed.Store(true)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end = err
	}
	return n, err
}

func (w *witness) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.failed.Store(true)
	}
	return n, err
}

// explain puts how reading ended, if it did, before err, which may be only its
// consequence: the library closes the connection then, and its next write fails.
func (w *witness) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end == nil {
		return err
	}
	return fmt.Errorf("%w: %w", w.end, err)
}
