package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

// publisher is one channel with confirms, used by one Deliver at a time.
type publisher struct {
	channel *amqp091.Channel
	// returns must hold all that one Deliver publishes: the library drops what
	// it can't hand over, and a return that is dropped looks like success.
	returns chan amqp091.Return
	closes  chan *amqp091.Error
}

func newPublisher(connection *amqp091.Connection) (*publisher, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	p := &publisher{
		channel: channel,
		returns: channel.NotifyReturn(make(chan amqp091.Return, core.MaxTake)),
		closes:  channel.NotifyClose(make(chan *amqp091.Error, 1)),
	}
	return p, channel.Confirm(false)
}

// batch is a run of messages being published on one channel, by a goroutine of
// its own, since the library may block where no context reaches.
type batch struct {
	publisher *publisher
	messages  []*outgoing
	mandatory bool

	mu       sync.Mutex
	stopped  bool
	begun    int // messages that may have left
	confirms []*amqp091.DeferredConfirmation
	err      error // of the message after the last of confirms
}

// run publishes until it is done, fails or is stopped.
func (f *batch) run() {
	for _, m := range f.messages {
		if !f.begin() {
			return
		}
		confirm, err := f.publisher.channel.PublishWithDeferredConfirm(m.exchange, m.key, f.mandatory, false, m.Publishing)
		if f.note(confirm, err); err != nil {
			return
		}
	}
}

func (f *batch) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.begun++
	}
	return !f.stopped
}

func (f *batch) note(confirm *amqp091.DeferredConfirmation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.confirms = append(f.confirms, confirm)
	case errors.Is(err, amqp091.ErrClosed): // it had ended before: no whole message has left
		f.begun--
	default:
		f.err = err
	}
}

// stop keeps what has not begun from being published.
func (f *batch) stop() (begun int, confirms []*amqp091.DeferredConfirmation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	return f.begun, f.confirms, f.err
}

// landing is what became of a batch.
type landing struct {
	begun     int     // of the messages, from the first on; the rest has not left
	results   []error // of those that have begun; errLost: not known
	cutShort  error   // ctx ended before all was known
	exception *amqp091.Error
}

// lost counts the messages that have left and whose outcome is not known.
func (l *landing) lost() int {
	n := 0
	for _, result := range l.results {
		if errors.Is(result, errLost) {
			n++
		}
	}
	return n
}

// explain reports why a message is lost.
func (l *landing) explain(lost error) error {
	switch {
	case l.cutShort != nil:
		return fmt.Errorf("no confirm came: %w", l.cutShort)
	case l.exception != nil:
		return fmt.Errorf("%w: %w", lost, l.exception)
	}
	return lost
}

// fly publishes messages and collects their confirms until ctx ends. If
// cutShort is set the channel is not to be used again.
func (p *publisher) fly(ctx context.Context, messages []*outgoing, mandatory bool) landing {
	f := &batch{publisher: p, messages: messages, mandatory: mandatory}
	done := make(chan struct{})
	go func() { defer close(done); f.run() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	begun, confirms, failed := f.stop()
	l := landing{begun: begun, results: make([]error, begun)}
	for i := range l.results {
		l.results[i] = errLost
		if i < len(confirms) {
			l.results[i] = p.await(ctx, confirms[i])
		} else if failed != nil {
			l.results[i] = fmt.Errorf("%w: %w", errLost, failed)
		}
	}
	p.applyReturns(messages, l.results)
	if ctx.Err() != nil {
		l.cutShort = context.Cause(ctx)
	}
	select {
	case l.exception = <-p.closes:
	default:
	}
	return l
}

// await waits for one confirm until ctx ends.
func (p *publisher) await(ctx context.Context, confirm *amqp091.DeferredConfirmation) error {
	select {
	case <-confirm.Done():
	default:
		select {
		case <-confirm.Done():
		case <-ctx.Done():
			return errLost
		}
	}
	switch {
	case confirm.Acked():
		return nil
	case p.channel.IsClosed(): // all that is outstanding is nacked by the library then
		return errLost
	}
	return errNacked
}

// applyReturns marks the messages that nobody gets. The broker sends a return
// before the confirm of the same message, so those that matter are here.
func (p *publisher) applyReturns(messages []*outgoing, results []error) {
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				return
			}
			markReturned(r, messages, results)
		default:
			return
		}
	}
}

func markReturned(r amqp091.Return, messages []*outgoing, results []error) {
	for i := range results {
		m := messages[i]
		if results[i] == nil && r.Headers[core.HeaderID] == any(m.id) && m.exchange == r.Exchange && m.key == r.RoutingKey {
			results[i] = core.Classify(core.TopicBlocked,
				fmt.Errorf("messages to exchange %q with routing key %q reach no queue: %s (%d)", r.Exchange, r.RoutingKey, r.ReplyText, r.ReplyCode))
			return
		}
	}
}
