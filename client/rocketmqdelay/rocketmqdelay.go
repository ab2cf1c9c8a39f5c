// Package rocketmqdelay lets code that sends to RocketMQ with rocketmq-client-go
// delay single messages by a property: our own, or RocketMQ's, for any time and
// on any broker.
//
//	p, err := rocketmq.NewProducer(producer.WithNsResolver(...),
//		producer.WithInterceptor(rocketmqdelay.Intercept(bridge, rocketmqdelay.Options{Sink: "rocketmq"})))
//	m := primitive.NewMessage("reminders", body)
//	m.WithProperty("delaybridge-delay", "10m")
//	result, err := p.SendSync(ctx, m)
//
// The properties are those of the bridge, delaybridge-delay or
// delaybridge-deliver-at, and -id, -sink, -topic, -key, -ttl, -expires-at,
// -priority; and RocketMQ's DELAY (the levels that brokers have unless they are
// configured otherwise), TIMER_DELIVER_MS, TIMER_DELAY_MS and TIMER_DELAY_SEC.
// They are taken off. Topic, body, tags, keys, sharding key and all other
// properties arrive as they are; the ID is put before the keys. A Flag is
// refused, and a Queue that was chosen does not count.
//
// SendSync and SendOneWay return when the bridge has stored the message. The
// result is SendOK, and its MsgID the ID; it names a topic but neither broker nor
// queue. A batch has a delay for all its messages or for none; if it fails, some
// may be stored: the error is a client.BatchError. Errors are otherwise
// *client.Error. A repeat after client.ErrUnknown may deliver twice, unless the
// message has a delaybridge-id.
//
// What the client library does not let an interceptor do is refused for
// messages with a delay: SendAsync, whose callback an interceptor can't call,
// and transactions. Request and RequestAsync are not for a producer with an
// interceptor, whichever it is: in version 2.1.2 of the library the one then
// returns without the reply, and the other sends twice, the second time around
// the interceptor. Give requests a producer of their own.
package rocketmqdelay

import (
	"context"
	"errors"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/delayheaders"
)

// Options say where delayed messages go.
type Options struct {
	// Sink is the bridge's name for the cluster of the producer. It may be empty
	// where the bridge has one sink only.
	Sink string
	// Namespace is that of the producer, which puts it before topics: here it is
	// taken off again, as the sink has its own.
	Namespace string
}

// What is refused of messages with a delay; nothing was sent.
var (
	ErrAsync       = errors.New("rocketmqdelay: a message with a delay can't be sent by SendAsync: use SendSync")
	ErrTransaction = errors.New("rocketmqdelay: a message with a delay can't be part of a transaction")
	ErrMixed       = errors.New("rocketmqdelay: a batch must have a delay for all its messages or for none")
)

// Intercept returns an interceptor for a producer that has messages with a delay
// go to the bridge, and leaves all others alone. Give it to
// producer.WithInterceptor as the last of several, so that the others see all
// messages.
func Intercept(bridge *client.Client, o Options) primitive.Interceptor {
	i := &interceptor{bridge: bridge, rules: delayheaders.New(o.Sink, "rocketmq"), namespace: o.Namespace}
	return i.intercept
}

type interceptor struct {
	bridge    *client.Client
	rules     *delayheaders.Rules
	namespace string
}

func (i *interceptor) intercept(ctx context.Context, request, reply any, next primitive.Invoker) error {
	message, ok := request.(*primitive.Message)
	if !ok {
		return next(ctx, request, reply)
	}
	parts := partsOf(message)
	delayed, err := i.read(message.Topic, parts)
	switch {
	case err != nil:
		return err
	case len(delayed) == 0:
		return next(ctx, request, reply)
	case len(delayed) < len(parts):
		return ErrMixed
	case message.GetProperty(primitive.PropertyTransactionPrepared) != "":
		return ErrTransaction
	case primitive.GetMethod(ctx) == primitive.SendAsync:
		return ErrAsync
	}
	return i.publish(ctx, delayed, reply)
}

// publish has messages stored by the bridge, and fills in the reply if one is
// wanted.
func (i *interceptor) publish(ctx context.Context, messages []client.Message, reply any) error {
	receipts, err := i.bridge.PublishBatch(ctx, messages)
	if e, ok := errors.AsType[client.BatchError](err); ok && len(e) == 1 {
		return e[0]
	}
	if result, ok := reply.(*primitive.SendResult); ok && result != nil && err == nil {
		ids := make([]string, len(receipts))
		for n, r := range receipts {
			ids[n] = r.ID
		}
		result.Status, result.MsgID = primitive.SendOK, strings.Join(ids, ",")
		// Without a queue the result could not be printed.
		result.MessageQueue = &primitive.MessageQueue{Topic: messages[0].Topic}
	}
	return err
}
