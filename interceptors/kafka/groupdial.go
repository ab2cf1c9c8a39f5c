package kafkasource

import (
	"context"
	"net"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// groupDial returns a dial function whose connections end stopGrace after ctx has,
// or with release. The group's library heeds no context, and may wait for an
// answer for as long as the slowest member takes to join. What it sets no limit to
// is limited by the dial timeout.
func (s *settings) groupDial(ctx context.Context) (dial dialFunc, release func()) {
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() {
		source.Sleep(life, s.stopGrace)
		end()
	})
	dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if life.Err() != nil {
			return nil, net.ErrClosed
		}
		conn, err := s.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		forget := context.AfterFunc(life, func() { conn.Close() })
		return &limitedConn{conn, s.DialTimeout, forget}, nil
	}
	return dial, func() { stop(); end() }
}

// limitedConn is a connection on which nothing is waited for longer than limit if
// nothing else is said. The group's library sets no limit to a login.
type limitedConn struct {
	net.Conn
	limit  time.Duration
	forget func() bool // by whom it would be closed in the end
}

// Close implements net.Conn.
func (c limitedConn) Close() error {
	c.forget()
	return c.Conn.Close()
}

func (c limitedConn) SetDeadline(t time.Time) error     { return c.Conn.SetDeadline(c.atLatest(t)) }
func (c limitedConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.atLatest(t)) }
func (c limitedConn) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.atLatest(t))
}

func (c limitedConn) atLatest(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now().Add(c.limit)
	}
	return t
}
