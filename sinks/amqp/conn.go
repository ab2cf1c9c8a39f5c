package amqp

import (
	"net"
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
