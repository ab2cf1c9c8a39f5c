package amqp

import (
	"errors"

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
