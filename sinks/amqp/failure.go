package amqp

import (
	"crypto/tls"
	"errors"
	"net"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

var (
	errClosed = errors.New("sink is closed")
	errNacked = errors.New("the broker refused the message (negative confirm)")
	errLost   = errors.New("the channel ended before the confirm")
)

// blame is whom a broker's reason for closing something is about.
type blame int

const (
	nobody       blame = iota // the broker's own trouble, or the network's
	oneMessage                // what one message holds
	itsDirection              // where one message goes: missing or forbidden
)

// blamed reads the reason with which the broker closed a channel or connection.
// What this side made up (Server is false) blames nobody.
func blamed(err *amqp091.Error) blame {
	if err == nil || !err.Server {
		return nobody
	}
	switch err.Code {
	case amqp091.AccessRefused, amqp091.NotFound, amqp091.ResourceLocked, amqp091.NoRoute, amqp091.NoConsumers:
		return itsDirection
	case amqp091.ContentTooLarge, amqp091.PreconditionFailed, amqp091.FrameError, amqp091.SyntaxError,
		amqp091.CommandInvalid, amqp091.UnexpectedFrame, amqp091.NotImplemented:
		return oneMessage
	}
	return nobody
}

// class is what a message deserves that was alone when the broker closed the
// channel.
func (b blame) class() core.Class {
	switch b {
	case oneMessage:
		return core.Permanent
	case itsDirection:
		return core.TopicBlocked
	}
	return core.Unknown
}

// refusedDial classifies why a connection could not be made. Only what the
// broker itself says about login or virtual host, and trouble with TLS, wait for an
// operator: the library's own ErrCredentials also stands for a connection that
// broke while logging in.
func refusedDial(err error) error {
	if refused, ok := errors.AsType[*amqp091.Error](err); ok && refused.Server {
		if refused.Code == amqp091.AccessRefused || refused.Code == amqp091.NotAllowed {
			return core.Classify(core.Blocked, err)
		}
		return err
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	if certificate || plain || isAlert(err) {
		return core.Classify(core.Blocked, err)
	}
	return err
}

// isAlert tells whether the other side refused TLS: crypto/tls has no exported
// type for its alerts, but this operation. With TLS 1.3 a certificate of ours is
// refused after the handshake, when the library reads already.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
