package kafkaconn

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

func (c *Conn) login(ctx context.Context, mechanism sasl.Mechanism, address string) error {
	answer, err := c.Stream.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
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
		if challenge, err = c.authenticate(message); err != nil {
			break
		}
		if done, message, err = session.Next(ctx, challenge); err != nil {
			// One side does not accept what the other says.
			err = fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
		}
	}
	return err
}

// authenticate is one step of a login.
func (c *Conn) authenticate(message []byte) (challenge []byte, err error) {
	answer, err := c.Stream.RoundTrip(&saslauthenticate.Request{AuthBytes: message})
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

// Expired reports whether the login is about to run out: use another connection then.
func (c *Conn) Expired() bool { return !c.expires.IsZero() && time.Now().After(c.expires) }
