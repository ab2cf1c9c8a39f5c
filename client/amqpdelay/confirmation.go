package amqpdelay

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Confirmation is used as an amqp.DeferredConfirmation is. That of a message
// with a delay is confirmed from the start.
type Confirmation struct {
	DeliveryTag uint64 // 0 of a message with a delay
	broker      *amqp.DeferredConfirmation
}

// closed is a channel that is done from the start.
func closed() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Done is closed when the message is confirmed, or will not be.
func (c *Confirmation) Done() <-chan struct{} {
	if c.broker == nil {
		return closed()
	}
	return c.broker.Done()
}

// Acked tells, without waiting, whether the message is confirmed.
func (c *Confirmation) Acked() bool { return c.broker == nil || c.broker.Acked() }

// Wait waits for Done and returns Acked.
func (c *Confirmation) Wait() bool { return c.broker == nil || c.broker.Wait() }

// WaitContext is Wait, or the context's error if that ends before.
func (c *Confirmation) WaitContext(ctx context.Context) (bool, error) {
	if c.broker == nil {
		return true, nil
	}
	return c.broker.WaitContext(ctx)
}
