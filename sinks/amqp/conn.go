package amqp

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// deadlineConn gives every write a deadline. The library has none, and holds
// locks while it writes: a broker that stops reading would hang publishers,
// confirms and Close alike.
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

// witness remembers how reading ended, which the library does not tell.
type witness struct {
	net.Conn
	mu  sync.Mutex
	end error
}

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end = err
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
