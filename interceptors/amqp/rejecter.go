package amqpsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// rejecter publishes what can't be parked to the reject queue or exchange, on a
// connection of its own: a broker that is short of memory stops reading from
// connections that publish, and then would not read acknowledgements either.
// Safe for concurrent use.
type rejecter struct {
	settings *settings

	mu         sync.Mutex
	dialer     *amqp.Dialer
	connection *amqp.Connection // nil: there is none
	channel    *amqp091.Channel
	returns    chan amqp091.Return
}

// The headers of a rejected message, besides those that it came with.
const (
	headerReason     = core.HeaderPrefix + "reject-reason"
	headerLeftOut    = core.HeaderPrefix + "reject-left-out"
	headerQueue      = core.HeaderPrefix + "source-queue"
	headerExchange   = core.HeaderPrefix + "source-exchange"
	headerRoutingKey = core.HeaderPrefix + "source-routing-key"
)

// maxProperties bounds the headers and other properties together: they must fit
// into one frame, or the broker closes the connection.
const maxProperties = amqp.FrameSize - 4<<10

var errNacked = errors.New("the broker refused the message (negative confirm)")

// write returns nil when the broker has confirmed all of rejected, which are
// some of batch.
func (r *rejecter) write(ctx context.Context, queue string, batch []amqp091.Delivery, rejected []source.Rejection) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(ctx); err != nil {
		return fmt.Errorf("write to %s: %w", r.target(), err)
	}
	for len(rejected) > 0 {
		n := portion(batch, rejected)
		if err := r.writeSome(ctx, queue, batch, rejected[:n]); err != nil {
			r.drop()
			return fmt.Errorf("write to %s: %w", r.target(), err)
		}
		rejected = rejected[n:]
	}
	return nil
}

// maxPortion bounds the bodies that have one confirm timeout together.
const maxPortion = 4 << 20

// portion is how many of rejected go together: one at least.
func portion(batch []amqp091.Delivery, rejected []source.Rejection) int {
	n, size := 0, 0
	for n < len(rejected) && (n == 0 || size+len(batch[rejected[n].Index].Body) <= maxPortion) {
		size += len(batch[rejected[n].Index].Body)
		n++
	}
	return n
}

func (r *rejecter) writeSome(ctx context.Context, queue string, batch []amqp091.Delivery, rejected []source.Rejection) error {
	ctx, cancel := context.WithTimeout(ctx, r.settings.confirmTimeout)
	defer cancel()
	return r.connection.Within(ctx, r.settings.confirmTimeout, func() error { return r.publish(ctx, queue, batch, rejected) })
}

func (r *rejecter) target() string {
	if r.settings.rejectQueue != "" {
		return "reject queue " + r.settings.rejectQueue
	}
	return "reject exchange " + r.settings.rejectExchange
}

// open makes sure of a channel with confirms.
func (r *rejecter) open(ctx context.Context) error {
	if r.connection != nil && !r.connection.IsClosed() && !r.channel.IsClosed() {
		return nil
	}
	r.drop()
	connection, err := r.dialer.Dial(ctx)
	if err != nil {
		return err
	}
	err = connection.Within(ctx, r.settings.cluster.DialTimeout, func() error {
		channel, err := connection.Channel()
		if err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		r.channel = channel
		return channel.Confirm(false)
	})
	if err != nil {
		connection.Close(nil)
		return err
	}
	r.connection = connection
	// Room for all that one batch can bring back: the library drops what it
	// can't hand over.
	r.returns = r.channel.NotifyReturn(make(chan amqp091.Return, maxBatch))
	return nil
}

// drop ends the connection. r.mu must be held.
func (r *rejecter) drop() {
	if r.connection != nil {
		r.connection.Close(nil)
		r.connection = nil
	}
}

func (r *rejecter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func (r *rejecter) publish(ctx context.Context, queue string, batch []amqp091.Delivery, rejected []source.Rejection) error {
	confirms := make([]*amqp091.DeferredConfirmation, len(rejected))
	for n, one := range rejected {
		d := &batch[one.Index]
		exchange, key := r.settings.rejectExchange, d.RoutingKey
		if r.settings.rejectQueue != "" {
			exchange, key = "", r.settings.rejectQueue
		}
		var err error
		if confirms[n], err = r.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, rejection(d, queue, one.Reason)); err != nil {
			return err
		}
	}
	for _, confirm := range confirms {
		switch acked, err := confirm.WaitContext(ctx); {
		case err != nil:
			return fmt.Errorf("wait for a confirm: %w", err)
		case !acked:
			return errNacked
		}
	}
	select { // a return comes before the confirm of its message
	case back, ok := <-r.returns:
		if ok {
			return fmt.Errorf("it reaches no queue: %s (%d)", back.ReplyText, back.ReplyCode)
		}
		return amqp091.ErrClosed
	default:
		return nil
	}
}

// rejection is a message as it came, with why it is rejected. What would have it
// go elsewhere, vanish, or be refused is left out.
func rejection(d *amqp091.Delivery, queue string, reason error) amqp091.Publishing {
	headers := make(amqp091.Table, len(d.Headers)+5)
	maps.Copy(headers, d.Headers)
	var leftOut []string // by name
	leave := func(name string, there bool) {
		if there {
			leftOut = append(leftOut, name)
		}
	}
	for _, name := range []string{"CC", "BCC"} { // more routing keys
		_, there := headers[name]
		leave(name, there)
		delete(headers, name)
	}
	if isUnreadable(d) || propertiesSize(d) > maxProperties {
		headers = make(amqp091.Table, 5)
		leave("headers", true)
	}
	leave("expiration", d.Expiration != "")
	leave("user_id", d.UserId != "")
	if leftOut != nil {
		headers[headerLeftOut] = strings.Join(leftOut, ",")
	}
	headers[headerReason] = core.Shorten(reason.Error(), core.MaxErrorText)
	headers[headerQueue], headers[headerExchange], headers[headerRoutingKey] = queue, d.Exchange, d.RoutingKey
	return amqp091.Publishing{Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: amqp091.Persistent, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body}
}

// propertiesSize is at least how many bytes the properties of d take.
func propertiesSize(d *amqp091.Delivery) int {
	size := fieldSize(d.Headers)
	for _, text := range []string{d.ContentType, d.ContentEncoding, d.CorrelationId, d.ReplyTo, d.MessageId, d.Type, d.AppId} {
		size += 1 + len(text)
	}
	return size
}

// fieldSize is at least how many bytes a value of a table takes.
func fieldSize(value any) int {
	const overhead = 9 // the type, and a length or number
	size := overhead
	switch v := value.(type) {
	case string:
		size += len(v)
	case []byte:
		size += len(v)
	case amqp091.Table:
		for name, one := range v {
			size += 1 + len(name) + fieldSize(one)
		}
	case []any:
		for _, one := range v {
			size += fieldSize(one)
		}
	}
	return size
}
