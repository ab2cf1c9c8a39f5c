package amqpsource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	connectionName = "delaybridge"
	frameSize      = 128 << 10 // RabbitMQ's own; the broker may ask for less
	// closeTimeout bounds a polite end of a connection; then it is cut.
	closeTimeout = time.Second
)

// connection is a connection that can be cut, whatever the library waits for.
type connection struct {
	*amqp091.Connection
	raw net.Conn
}

// connect makes one round over the nodes, beginning with the one at *next, and
// leaves there the one to begin with the next time.
func (s *settings) connect(ctx context.Context, next *int) (*connection, error) {
	var failed []error
	for range s.nodes {
		c, err := s.dial(ctx, s.nodes[*next%len(s.nodes)])
		if err == nil {
			return c, nil
		}
		*next++
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect: %w", errors.Join(failed...))
}

// dial connects to one node and logs in, within the dial timeout.
func (s *settings) dial(ctx context.Context, n node) (*connection, error) {
	deadline := time.Now().Add(s.dialTimeout)
	raw, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	made, err := s.handshake(ctx, raw, n, deadline)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return &connection{made, raw}, nil
}

// handshake makes TLS, if wanted, and an AMQP connection of raw.
func (s *settings) handshake(ctx context.Context, raw net.Conn, n node, deadline time.Time) (*amqp091.Connection, error) {
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var conn net.Conn = deadlineConn{raw, s.writeTimeout}
	if n.tls != nil {
		encrypted := tls.Client(conn, n.tls)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS with %s: %w", n.addr, err)
		}
		conn = encrypted
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(connectionName)
	made, err := amqp091.Open(newGuard(conn), amqp091.Config{
		SASL:       []amqp091.Authentication{&login{n.uri, properties}},
		Vhost:      n.uri.Vhost,
		Heartbeat:  s.heartbeat,
		Properties: properties,
		Locale:     "en_US",
		FrameSize:  frameSize,
	})
	if err != nil {
		return nil, fmt.Errorf("AMQP with %s: %w", n.addr, err)
	}
	return made, nil
}

// login is a SASL PLAIN login that makes the broker say when it refuses it:
// without this capability RabbitMQ just closes the connection, after three
// seconds. The library writes its own capabilities into properties before it
// asks for the response.
type login struct {
	uri        amqp091.URI
	properties amqp091.Table
}

func (l *login) Mechanism() string { return l.uri.PlainAuth().Mechanism() }

func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp091.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.uri.PlainAuth().Response()
}

// deadlineConn gives every write a deadline. The library has none, and holds
// locks while it writes: a broker that stops reading would hang acks and Close
// alike.
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

// within calls f, which asks the broker something, and cuts the connection if
// ctx ends or limit is over before it has returned.
func (c *connection) within(ctx context.Context, limit time.Duration, f func() error) error {
	defer context.AfterFunc(ctx, func() { c.raw.Close() })()
	cut := time.AfterFunc(limit, func() { c.raw.Close() })
	defer cut.Stop()
	return f()
}

// close ends the connection, politely if that is possible soon. channel, if not
// nil, is closed first: the broker has then taken all that was sent on it.
func (c *connection) close(channel *amqp091.Channel) {
	cut := time.AfterFunc(closeTimeout, func() { c.raw.Close() })
	defer cut.Stop()
	if channel != nil {
		_ = channel.Close() // an error means that it has ended in some other way
	}
	_ = c.CloseDeadline(time.Now().Add(closeTimeout)) // and here, too
	c.raw.Close()
}
