// Package listener has the common parts of the HTTP and gRPC listeners: bounds of
// connections and of bytes of requests, the check of listen addresses, and the log of
// readiness.
package listener

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// spareConnections are how many a listener takes beyond its limit, so that health
// is told while producers fill it.
const spareConnections = 32

// Limit returns a listener with at most the given number of connections and a few spare
// ones, which may only request health until Conn.Admitted returns true. Further
// connections are closed at once.
func Limit(inner net.Listener, most int, log *slog.Logger) net.Listener {
	return &limited{Listener: inner, most: int64(most), log: log}
}

type limited struct {
	net.Listener
	most           int64
	log            *slog.Logger
	regular, spare atomic.Int64 // that are open
	told           time.Time    // when the log was last told that all is full
}

// Conn is a counted connection.
type Conn struct {
	net.Conn
	of    *limited
	place atomic.Pointer[atomic.Int64] // where it is counted; nil: closed
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: inner, of: l}
		if c.move(nil, &l.regular, l.most) {
			return c, nil
		}
		if l.told.IsZero() || time.Since(l.told) > time.Minute {
			l.told = time.Now()
			l.log.Warn("connection limit reached, new connections are refused", "max_connections", l.most)
		}
		if c.move(nil, &l.spare, spareConnections) {
			return c, nil
		}
		inner.Close()
	}
}

// move counts c at another place than before, if there is room and it has not been
// closed.
func (c *Conn) move(from, to *atomic.Int64, most int64) bool {
	if to.Add(1) > most || !c.place.CompareAndSwap(from, to) {
		to.Add(-1)
		return false
	}
	if from != nil {
		from.Add(-1)
	}
	return true
}

// Admitted reports whether c may request more than health: it is not a spare
// connection, or no longer one because another has ended.
func (c *Conn) Admitted() bool {
	spare := &c.of.spare
	return c.place.Load() != spare || c.move(spare, &c.of.regular, c.of.most)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if place := c.place.Swap(nil); place != nil {
		place.Add(-1)
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http end a connection so that its last answer arrives.
func (c *Conn) CloseWrite() error {
	if inner, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return nil
}

// ConnOf returns c, or the connection under c's TLS, as a Conn; nil if it is none.
func ConnOf(c net.Conn) *Conn {
	for {
		switch inner := c.(type) {
		case *Conn:
			return inner
		case interface{ NetConn() net.Conn }:
			c = inner.NetConn()
		default:
			return nil
		}
	}
}
