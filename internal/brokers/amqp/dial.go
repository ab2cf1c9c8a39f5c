package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	connectionName = "delaybridge"
	// FrameSize is RabbitMQ's own. The broker may ask for less.
	FrameSize = 128 << 10
)

// Dialer connects to a cluster. It is for one goroutine at a time.
type Dialer struct {
	cluster *Cluster
	next    uint32 // the node to begin with
}

// Dialer returns one that begins with any of the nodes. The cluster must not change after.
func (c *Cluster) Dialer() *Dialer { return &Dialer{cluster: c, next: rand.Uint32()} }

// DialError says why no node could be connected to.
type DialError struct {
	// Refused: each of them refuses login, virtual host or certificate, which waits for
	// an operator. Else it may pass by itself.
	Refused bool
	err     error
}

func (e *DialError) Error() string { return "connect: " + e.err.Error() }

// Unwrap returns what the nodes said.
func (e *DialError) Unwrap() error { return e.err }

// Dial makes one round over the nodes, beginning with the one after the last that it has
// tried, and connects to the first that takes us. Its error is a *DialError.
func (d *Dialer) Dial(ctx context.Context) (*Connection, error) {
	failed := &DialError{Refused: true}
	for range d.cluster.nodes {
		n := d.cluster.nodes[d.next%uint32(len(d.cluster.nodes))]
		d.next++
		made, err := d.cluster.dial(ctx, n)
		if err == nil {
			return made, nil
		}
		failed.Refused = failed.Refused && isRefusal(err)
		if failed.err != nil {
			err = fmt.Errorf("%w; %w", failed.err, err)
		}
		failed.err = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// dial connects to one node and logs in, within the dial timeout.
func (c *Cluster) dial(ctx context.Context, n node) (*Connection, error) {
	deadline := time.Now().Add(c.DialTimeout)
	raw, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	made, err := c.handshake(ctx, raw, n, deadline)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return made, nil
}

// handshake makes TLS, if wanted, and an AMQP connection of raw.
func (c *Cluster) handshake(ctx context.Context, raw net.Conn, n node, deadline time.Time) (*Connection, error) {
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var conn net.Conn = deadlineConn{raw, c.writeTimeout}
	if n.tls != nil {
		encrypted := tls.Client(conn, n.tls)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS with %s: %w", n.addr, err)
		}
		conn = encrypted
	}
	seen := &witness{Conn: conn}
	conn = seen
	if c.Wrap != nil {
		conn = c.Wrap(conn)
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(connectionName)
	made, err := amqp091.Open(conn, amqp091.Config{
		SASL:       []amqp091.Authentication{&login{n.uri, properties}},
		Vhost:      n.uri.Vhost,
		Heartbeat:  c.heartbeat,
		Properties: properties,
		Locale:     "en_US",
		FrameSize:  FrameSize,
	})
	if err != nil {
		return nil, fmt.Errorf("AMQP with %s: %w", n.addr, seen.explain(err))
	}
	return &Connection{Connection: made, Addr: n.addr, raw: raw, seen: seen}, nil
}

// login is a SASL PLAIN login that makes the broker say when it refuses it:
// without this capability RabbitMQ just closes the connection, after three
// seconds, which can't be told from trouble with the network. The library
// writes its own capabilities into properties before it asks for the response.
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

// isRefusal reports whether a connection was refused permanently. Only what the broker itself
// says about login or virtual host, and trouble with TLS, waits for an operator: the
// library's own ErrCredentials also stands for a connection that broke while logging in.
func isRefusal(err error) bool {
	if refused, ok := errors.AsType[*amqp091.Error](err); ok && refused.Server {
		return refused.Code == amqp091.AccessRefused || refused.Code == amqp091.NotAllowed
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return certificate || plain || isAlert(err)
}

// isAlert reports whether the other side refused TLS: crypto/tls has no exported
// type for its alerts, but this operation. With TLS 1.3 a certificate of ours is
// refused after the handshake, when the library reads already.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
