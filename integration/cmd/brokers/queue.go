//go:build unix

package main

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declareQueue makes a durable queue, which the default exchange routes to by
// its name.
func declareQueue(url, name string) (err error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = channel.QueueDeclare(name, true, false, false, false, nil)
	return err
}
