package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/delaybridge/delaybridge/core"
)

// connectError is why there is no connection to a broker. Nothing was sent.
type connectError struct {
	address string
	class   core.Class // Retry, or Blocked if only an operator can help
	err     error
}

func (e *connectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.address, e.err) }
func (e *connectError) Unwrap() error { return e.err }

// minProduceVersion is the first with record batches, and so with headers.
const minProduceVersion = 3

var errTooOld = errors.New("broker is older than Kafka 1.0")

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
	dialCtx, cancel := context.WithTimeoutCause(ctx, c.dialTimeout, errors.New("took longer than the dial timeout"))
	defer cancel()
	made, err := c.handshake(dialCtx, address)
	if err == nil && !c.begin(made) {
		err = errClosed
	}
	if err == nil {
		return made, nil
	}
	if dialCtx.Err() != nil {
		err = context.Cause(dialCtx)
	}
	return nil, &connectError{address: address, class: connectClass(err), err: err}
}

// begin starts to read, and to watch for idleness and the end of the sink. These
// may come before made is complete, so they end no more than the socket, and
// whoever reads from it closes the rest.
func (c *client) begin(made *conn) bool {
	hangUp := func() { made.raw.Close() }
	made.idle = time.AfterFunc(c.idleTimeout, hangUp)
	made.release = context.AfterFunc(c.ctx, hangUp)
	if !c.start(made.read) {
		made.close()
		return false
	}
	return true
}

func (c *client) handshake(ctx context.Context, address string) (*conn, error) {
	raw, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	made, err := c.introduce(ctx, raw, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return made, nil
}

// introduce does all that comes before the first request of ours.
func (c *client) introduce(ctx context.Context, raw net.Conn, address string) (*conn, error) {
	stream := raw
	if c.tls != nil {
		secured := tls.Client(raw, c.tlsFor(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		stream = secured
	}
	made := &conn{
		clientID: c.clientID, raw: raw, stream: protocol.NewConn(stream, c.clientID), idleTime: c.idleTimeout,
		awaited: make(chan exchange, 1), dead: make(chan struct{}),
	}
	if err := made.negotiate(); err != nil {
		return nil, fmt.Errorf("agree on versions: %w", err)
	}
	if c.sasl == nil {
		return made, nil
	}
	if err := made.login(ctx, c.sasl, address); err != nil {
		return nil, fmt.Errorf("log in by %s: %w", c.sasl.Name(), err)
	}
	return made, nil
}

func (c *client) tlsFor(address string) *tls.Config {
	if c.tls.ServerName != "" {
		return c.tls
	}
	named := c.tls.Clone()
	named.ServerName, _, _ = net.SplitHostPort(address)
	return named
}

// negotiate finds the newest version of each request that both sides know.
func (c *conn) negotiate() error {
	answer, err := c.stream.RoundTrip(new(apiversions.Request))
	if err != nil {
		return err
	}
	offered := answer.(*apiversions.Response)
	if offered.ErrorCode != 0 {
		return kafka.Error(offered.ErrorCode)
	}
	c.versions = make(map[protocol.ApiKey]int16, len(offered.ApiKeys))
	for _, api := range offered.ApiKeys {
		key := protocol.ApiKey(api.ApiKey)
		c.versions[key] = key.SelectVersion(api.MinVersion, api.MaxVersion)
	}
	if c.versions[protocol.Produce] < minProduceVersion {
		return errTooOld
	}
	c.stream.SetVersions(c.versions)
	return nil
}

func (c *conn) login(ctx context.Context, mechanism sasl.Mechanism, address string) error {
	answer, err := c.stream.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return err
	}
	if code := answer.(*saslhandshake.Response).ErrorCode; code != 0 {
		return kafka.Error(code)
	}
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	ctx = sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: number})
	session, message, err := mechanism.Start(ctx)
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = c.authenticate(message); err == nil {
			done, message, err = session.Next(ctx, challenge)
			err = asRefusal(err)
		}
	}
	return err
}

// asRefusal marks an error of the mechanism itself: one side does not accept
// what the other says.
func asRefusal(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
}

// authenticate is one step of a login.
func (c *conn) authenticate(message []byte) (challenge []byte, err error) {
	answer, err := c.stream.RoundTrip(&saslauthenticate.Request{AuthBytes: message})
	if err != nil {
		return nil, err
	}
	step := answer.(*saslauthenticate.Response)
	if step.ErrorCode != 0 {
		return nil, kafka.Error(step.ErrorCode)
	}
	if lifetime := time.Duration(step.SessionLifetimeMs) * time.Millisecond; lifetime > 0 {
		// The broker ends the connection then; be gone before it does.
		c.expires = time.Now().Add(lifetime * 8 / 10)
	}
	return step.AuthBytes, nil
}

// connectClass tells a broker that is unreachable from one that will not have us.
func connectClass(err error) core.Class {
	var code kafka.Error
	if errors.As(err, &code) && codes[code].class == core.Blocked {
		return core.Blocked
	}
	if errors.Is(err, errTooOld) || isTLSRefusal(err) {
		return core.Blocked
	}
	return core.Retry
}

// isTLSRefusal tells whether one side does not accept the other's certificate,
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
