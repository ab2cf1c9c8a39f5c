package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// connectError is why there is no connection to a broker. Nothing was sent.
type connectError struct {
	address string
	class   core.Class // Retry, or Blocked if only an operator can help
	err     error
}

func (e *connectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.address, e.err) }
func (e *connectError) Unwrap() error { return e.err }

// connect makes a connection within the dial timeout, TLS, versions and login
// included. ctx bounds the making only; the connection lives until it is closed,
// by the sink too, or was unused for the idle time. The error is a *connectError.
// Of concurrent calls for an address one goes ahead, so that a broker that is
// away costs one connection, however many want one.
func (c *client) connect(ctx context.Context, address string) (*conn, error) {
	for {
		a, ours := c.attempt(address)
		if ours {
			return c.goAhead(ctx, address, a)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, &connectError{address: address, err: context.Cause(ctx)}
		}
		switch {
		case a.err != nil:
			return nil, a.err
		case a.well: // no need to go one by one
			return c.makeConn(ctx, address)
		}
	}
}

// goAhead makes a connection while others wait for what becomes of it.
func (c *client) goAhead(ctx context.Context, address string, a *attempt) (*conn, error) {
	made, err := c.makeConn(ctx, address)
	if ctx.Err() != nil { // the failure is ours
		c.conclude(address, a, err == nil, nil)
	} else {
		c.conclude(address, a, err == nil, err)
	}
	return made, err
}

func (c *client) makeConn(ctx context.Context, address string) (*conn, error) {
	dialled, err := c.Dial(ctx, address)
	if err != nil {
		return nil, &connectError{address: address, class: connectClass(err), err: err}
	}
	made := newConn(dialled, c.idleTimeout)
	if !c.begin(made) {
		return nil, &connectError{address: address, err: errClosed}
	}
	return made, nil
}

// begin starts to read, and to watch for idleness and the end of the sink. These
// may come before made is complete, so they end no more than the socket, and
// whoever reads from it closes the rest.
func (c *client) begin(made *conn) bool {
	hangUp := func() { made.Raw.Close() }
	made.idle = time.AfterFunc(made.idleTime, hangUp)
	made.release = context.AfterFunc(c.ctx, hangUp)
	if !c.start(made.read) {
		made.close()
		return false
	}
	return true
}

// connectClass tells a broker that is unreachable from one that will not have us.
func connectClass(err error) core.Class {
	var code kafka.Error
	if errors.As(err, &code) && meaning(code).class == core.Blocked {
		return core.Blocked
	}
	if errors.Is(err, kafkaconn.ErrTooOld) || isTLSRefusal(err) {
		return core.Blocked
	}
	return core.Retry
}

// isTLSRefusal reports whether one side does not accept the other's certificate,
// or does not speak TLS at all.
func isTLSRefusal(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" {
		return true // an alert; its type has no public name
	}
	return isEOF(err) && strings.Contains(err.Error(), "expecting TLS") // the text of kafka-go
}
