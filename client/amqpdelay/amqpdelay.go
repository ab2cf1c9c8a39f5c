// Package amqpdelay lets code that publishes to RabbitMQ with amqp091-go delay
// single messages by a header: our own, or the x-delay of RabbitMQ's delayed
// message plugin, which is then not needed.
//
//	ch := amqpdelay.Wrap(channel, bridge, amqpdelay.Options{Sink: "amqp"})
//	err := ch.PublishWithContext(ctx, "", "reminders", true, false, amqp.Publishing{
//		Headers: amqp.Table{"x-delay": 600_000}, Body: body})
//
// x-delay is in milliseconds. The other headers are those of the bridge:
// delaybridge-delay or delaybridge-deliver-at, and -id, -sink, -topic (the
// routing key), -key, -ttl, -expires-at, -priority. They are taken off.
//
// A delayed message goes to its exchange with its routing key when it is due. An
// exchange of the type x-delayed-message delays nothing a second time, but is not
// needed either. Body, headers, ContentType, ContentEncoding, CorrelationId,
// ReplyTo, Expiration, Type and AppId arrive as they are, and so does MessageId,
// which is the ID: it has to be unique, and a repeat is taken for one. Priority
// (up to 9) is heeded by the bridge too. Timestamp and UserId do not arrive;
// DeliveryMode and mandatory are the sink's. Headers are text: others are
// refused, unless Options.HeadersAsText is set.
//
// The call returns when the bridge has stored the message. The broker knows
// nothing of it then, so NotifyPublish, NotifyReturn and transactions of the
// channel do not either; GetNextPublishSeqNo does not count it.
package amqpdelay

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/delayheaders"
)

// Options say where delayed messages go, and how.
type Options struct {
	// Sink is the bridge's name for the broker of the channel. It may be empty
	// where the bridge has one sink only.
	Sink string
	// HeadersAsText turns header values that are numbers, booleans and times into
	// text, as consumers of delayed messages then have them, instead of refusing
	// the message.
	HeadersAsText bool
}

// Channel is an amqp.Channel whose Publish methods heed delays. All else is the
// channel's own.
type Channel struct {
	*amqp.Channel
	bridge *client.Client
	rules  *delayheaders.Rules
	asText bool
}

// Wrap returns a Channel that has messages with a delay go to the bridge, and all
// others to ch. It opens nothing.
func Wrap(ch *amqp.Channel, bridge *client.Client, o Options) *Channel {
	return &Channel{Channel: ch, bridge: bridge, rules: delayheaders.New(o.Sink, "rabbitmq"), asText: o.HeadersAsText}
}

// Publish is PublishWithContext without a context.
func (c *Channel) Publish(exchange, key string, mandatory, immediate bool, msg amqp.Publishing) error {
	return c.PublishWithContext(context.Background(), exchange, key, mandatory, immediate, msg)
}

// PublishWithContext publishes as the amqp.Channel does, or, if msg has a delay,
// has the bridge store it. The error is then a *client.Error; a repeat after
// client.ErrUnknown may deliver twice, unless msg has a MessageId.
func (c *Channel) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp.Publishing) error {
	stored, err := c.publishDelayed(ctx, exchange, key, immediate, &msg)
	if stored || err != nil {
		return err
	}
	return c.Channel.PublishWithContext(ctx, exchange, key, mandatory, immediate, msg)
}

// PublishWithDeferredConfirm is PublishWithDeferredConfirmWithContext without a
// context.
func (c *Channel) PublishWithDeferredConfirm(exchange, key string, mandatory, immediate bool, msg amqp.Publishing) (*Confirmation, error) {
	return c.PublishWithDeferredConfirmWithContext(context.Background(), exchange, key, mandatory, immediate, msg)
}

// PublishWithDeferredConfirmWithContext publishes as the amqp.Channel does. The
// Confirmation of a message with a delay is there at once, as the bridge has
// stored it when the call returns; errors as with PublishWithContext. Of any
// other message it is nil if the channel is not in confirm mode.
func (c *Channel) PublishWithDeferredConfirmWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp.Publishing) (*Confirmation, error) {
	stored, err := c.publishDelayed(ctx, exchange, key, immediate, &msg)
	if err != nil {
		return nil, err
	}
	if stored {
		return &Confirmation{}, nil
	}
	deferred, err := c.Channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if deferred == nil || err != nil {
		return nil, err
	}
	return &Confirmation{DeliveryTag: deferred.DeliveryTag, broker: deferred}, nil
}

// publishDelayed has msg stored by the bridge, if it is for that.
func (c *Channel) publishDelayed(ctx context.Context, exchange, key string, immediate bool, msg *amqp.Publishing) (bool, error) {
	if !c.concerns(msg) {
		return false, nil
	}
	m, delayed, err := c.read(exchange, key, msg)
	if err != nil || !delayed {
		return false, err
	}
	if immediate {
		return false, client.Invalid("immediate", "is not supported for a message with a delay")
	}
	if _, err := c.bridge.Publish(ctx, m); err != nil {
		return false, fmt.Errorf("publish to %q with a delay: %w", key, err)
	}
	return true, nil
}

func (c *Channel) concerns(msg *amqp.Publishing) bool {
	for name := range msg.Headers {
		if c.rules.Concern(name) {
			return true
		}
	}
	return false
}
