package amqp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const connectionName = "delaybridge"

// dial connects to one node and logs in, within the dial timeout.
func (s *settings) dial(ctx context.Context, n node) (*session, error) {
	deadline := time.Now().Add(s.dialTimeout)
	raw, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	connection, err := s.handshake(ctx, raw, n, deadline)
	if err != nil {
		raw.Close()
		return nil, refusedDial(err)
	}
	return newSession(connection, raw, n.addr, s), nil
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
	seen := &witness{Conn: conn}
	connection, err := amqp091.Open(seen, amqp091.Config{
		SASL:       []amqp091.Authentication{&login{n.uri, properties}},
		Vhost:      n.vhost,
		Heartbeat:  s.heartbeat,
		Properties: properties,
		Locale:     "en_US",
		FrameSize:  frameSize,
	})
	if err != nil {
		return nil, fmt.Errorf("AMQP with %s: %w", n.addr, seen.explain(err))
	}
	return connection, nil
}

// frameSize is RabbitMQ's own. The broker may ask for less.
const frameSize = 128 << 10

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
