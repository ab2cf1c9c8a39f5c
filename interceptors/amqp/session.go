package amqpsource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
	watchEvery = 5 * time.Second
	// markEvery is how soon it is seen that an exchange was deleted.
	markEvery = 100 * time.Millisecond
	// ackPause is how long what is parked may wait to be acknowledged together
	// with more: acknowledgements cost the broker something, too.
	ackPause = 2 * time.Millisecond
)

var errEnded = errors.New("the broker has ended the consumer")

// run reads the queue until ctx ends, on one connection after another.
func (s *queueReader) run(ctx context.Context) error {
	trouble := source.Troubles{Of: s.parker, Log: s.log.With("source", s.name, "queue", s.queue)}
	pause, dialer := firstPause, s.settings.cluster.Dialer()
	for ctx.Err() == nil {
		began := time.Now()
		err := s.serve(ctx, dialer, trouble.Over)
		if _, refused := errors.AsType[*source.RefusedError](err); refused {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		trouble.Report("can't read from the queue", err)
		if time.Since(began) > maxPause {
			pause = firstPause
		}
		source.Sleep(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, maxPause)
	}
	return nil
}

// session is one connection that reads one queue.
type session struct {
	*queueReader
	connection *amqp.Connection
	channel    *amqp091.Channel
	arguments  map[string]any // of the queue, if it is declared here
	arrived    chan amqp091.Delivery
	helpers    sync.WaitGroup
	soon       *time.Timer // acknowledges

	mu     sync.Mutex
	parked int    // not yet acknowledged
	last   uint64 // delivery tag of the last of them: all before are done too
}

// serve reads until ctx ends or the connection does; it calls started when the
// broker has let it begin.
func (s *queueReader) serve(ctx context.Context, dialer *amqp.Dialer, started func()) error {
	connection, err := dialer.Dial(ctx)
	if err != nil {
		return err
	}
	one := &session{queueReader: s, connection: connection, arrived: make(chan amqp091.Delivery, s.settings.batch)}
	defer one.helpers.Wait() // that may take until the connection is closed
	defer func() { connection.Close(one.channel) }()
	deliveries, err := one.begin(ctx)
	if err != nil {
		return err
	}
	started()
	s.log.Info("source started", "source", s.name, "queue", s.queue)
	return one.work(ctx, deliveries)
}

// begin makes the broker deliver.
func (s *session) begin(ctx context.Context) (deliveries <-chan amqp091.Delivery, err error) {
	err = s.connection.Within(ctx, s.settings.cluster.DialTimeout, func() error {
		if err := s.checkReject(); err != nil {
			return err
		}
		channel, err := s.connection.Channel()
		if err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		s.channel = channel
		if s.declares() {
			if err := s.declare(); err != nil {
				return err
			}
		}
		if err := channel.Qos(s.settings.prefetch, 0, false); err != nil {
			return fmt.Errorf("set prefetch: %w", err)
		}
		if deliveries, err = channel.Consume(s.queue, "delaybridge-"+s.name, false, false, false, false, nil); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		s.checkLimit()
		return nil
	})
	return deliveries, err
}

// checkReject looks whether there is a place for what will be refused: better
// now than when it is needed.
func (s *session) checkReject() error {
	if s.rejecter == nil {
		return nil
	}
	channel, err := s.connection.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	defer channel.Close()
	if name := s.settings.rejectQueue; name != "" {
		if _, err := channel.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
			return fmt.Errorf("look up the reject queue: %w", err)
		}
		return nil
	}
	if err := channel.ExchangeDeclarePassive(s.settings.rejectExchange, amqp091.ExchangeDirect, true, false, false, false, nil); err != nil {
		return fmt.Errorf("look up the reject exchange: %w", err)
	}
	return nil
}

// work parks what is delivered. It returns when ctx ends, or the channel has,
// or a message must not be lost.
func (s *session) work(ctx context.Context, deliveries <-chan amqp091.Delivery) error {
	closes := s.channel.NotifyClose(make(chan *amqp091.Error, 1))
	// What is not parked when the channel ends will be delivered again: to continue
	// with it could only park it twice.
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	// A timer, as Park may hold on for long. If it fails the channel has ended.
	s.soon = time.AfterFunc(ackPause, func() { _ = s.acknowledge() })
	defer s.soon.Stop()
	s.helpers.Go(func() {
		select {
		case reason, ok := <-closes:
			if ok {
				end(reason)
			} else {
				end(errEnded)
			}
		case <-life.Done():
		}
	})
	s.helpers.Go(func() { s.pump(life, end, deliveries) })
	s.helpers.Go(func() { s.watch(life, end) })
	for {
		batch, err := s.gather(life)
		if err == nil {
			err = s.park(life, batch)
		}
		if err != nil {
			return errors.Join(err, s.acknowledge())
		}
	}
}

func (s *session) park(ctx context.Context, batch []amqp091.Delivery) error {
	items := make([]source.Item, 0, len(batch))
	for n := range batch {
		items = append(items, s.item(&batch[n]))
	}
	err := s.parker.Park(ctx, items, s.rejectTo(batch), func(index int) string { return s.at(&batch[index]) })
	return errors.Join(err, s.settle(batch, items))
}

// pump hands on what has come, so that gather finds it there: the library has
// no more than one ready at a time.
func (s *session) pump(ctx context.Context, end context.CancelCauseFunc, deliveries <-chan amqp091.Delivery) {
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				end(errEnded)
				return
			}
			select {
			case s.arrived <- d:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// gather returns what has arrived, and waits for the first.
func (s *session) gather(ctx context.Context) ([]amqp091.Delivery, error) {
	var batch []amqp091.Delivery
	select {
	case d := <-s.arrived:
		batch = append(make([]amqp091.Delivery, 0, len(s.arrived)+1), d)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for len(batch) < s.settings.batch {
		select {
		case d := <-s.arrived:
			batch = append(batch, d)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// settle notes what is done of a batch, and acknowledges it unless more is
// likely to come soon.
func (s *session) settle(batch []amqp091.Delivery, items []source.Item) error {
	done := 0
	for done < len(items) && items[done].Done {
		done++
	}
	if done == len(items) && s.later(batch[done-1].DeliveryTag, done) {
		return nil
	}
	if err := s.acknowledge(); err != nil {
		return err
	}
	for n := range items {
		if items[n].Done && done < len(items) {
			if err := s.channel.Ack(batch[n].DeliveryTag, false); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
	}
	return nil
}

// later notes that all up to a delivery tag are parked, count more than before,
// and has that acknowledged in a moment. False: there are too many to wait.
func (s *session) later(tag uint64, count int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked == 0 {
		s.soon.Reset(ackPause)
	}
	s.last, s.parked = tag, s.parked+count
	return s.parked < s.settings.prefetch/4
}

// acknowledge tells the broker of what is parked.
func (s *session) acknowledge() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked == 0 {
		return nil
	}
	s.parked = 0
	if err := s.channel.Ack(s.last, true); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// at names a message, as far as it has a name.
func (s *session) at(d *amqp091.Delivery) string {
	return fmt.Sprintf("queue %s, message_id %q, published to exchange %q with routing key %q", s.queue,
		core.Shorten(d.MessageId, core.MaxIDLen), d.Exchange, core.Shorten(d.RoutingKey, core.MaxIDLen))
}

func (s *session) rejectTo(batch []amqp091.Delivery) func(context.Context, []source.Rejection) error {
	if s.rejecter == nil {
		return nil
	}
	return func(ctx context.Context, rejected []source.Rejection) error {
		return s.rejecter.write(ctx, s.queue, batch, rejected)
	}
}

// watch looks now and then, on channels of its own, how many messages wait, and that
// what the source declares is as it was: at once if the exchange was deleted. It ends
// the session if what it declares can't be.
func (s *session) watch(ctx context.Context, end context.CancelCauseFunc) {
	defer s.waiting.Store(-1)
	channel, err := s.connection.Channel()
	if err != nil {
		return // the consumer needs no second one
	}
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	var marks *amqp091.Channel
	for looked := (time.Time{}); ; {
		deleted := s.deleted(&marks)
		if deleted && !looked.IsZero() {
			s.log.Error("the exchange was deleted: messages published to it before it is bound again are lost, although they were confirmed",
				"source", s.name, "exchange", s.exchange.name, "queue", s.queue)
		}
		if deleted || time.Since(looked) >= watchEvery {
			looked = time.Now()
			messages, err := s.look(channel)
			if isNotFound(err) && s.declares() { // the broker is still at deleting it
				looked = time.Time{}
				channel, err = s.connection.Channel()
			}
			if err != nil {
				if s.declares() {
					end(err)
				}
				return
			}
			s.waiting.Store(int64(messages))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// deleted reports whether the exchange was deleted since it was declared, by its mark. The
// channel for that, or nil, is at marks: the broker ends it if there is no mark.
func (s *session) deleted(marks **amqp091.Channel) bool {
	if !s.declares() {
		return false
	}
	if *marks == nil || (*marks).IsClosed() {
		var err error
		if *marks, err = s.connection.Channel(); err != nil {
			return false // the consumer learns of it, too
		}
	}
	return isNotFound(s.exchange.lookUpMark(*marks))
}

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*amqp091.Error](err)
	return ok && refused.Code == amqp091.NotFound
}

// look returns how many messages wait. It declares again what is to be declared:
// if an exchange was deleted, and maybe made again by a producer, its binding is
// lost, the queue and its consumer live on, and the broker tells nobody.
func (s *session) look(channel *amqp091.Channel) (messages int, err error) {
	if s.declares() {
		return s.exchange.declareOn(channel, s.arguments)
	}
	q, err := channel.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	return q.Messages, err
}
