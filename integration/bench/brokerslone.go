//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

// Lone messages come one by one, so far apart that none waits for another.
const (
	loneMessages = 500
	loneEvery    = 10 * time.Millisecond
	loneRounds   = 3 // taken in turn; the best of each counts
)

// measureLone: what a broker adds to the lateness of a message that is alone,
// over the null sink, beside the round trip of the client library.
func (c brokerCase) measureLone(ctx context.Context, b *bench, addrs []string, open func() (core.Sink, error)) error {
	var raw, null, late time.Duration
	for round := range loneRounds {
		r, err := c.rawLone(ctx, addrs)
		if err != nil {
			return fmt.Errorf("raw: %w", err)
		}
		n, err := lone(ctx, b, openNull)
		if err != nil {
			return err
		}
		l, err := lone(ctx, b, open)
		if err != nil {
			return err
		}
		if round == 0 {
			raw, null, late = r, n, l
			continue
		}
		raw, null, late = min(raw, r), min(null, n), min(late, l)
	}
	b.table.row("lone message into "+c.name+", p50 of what it is later than into the null sink ("+millis(null)+
		"); raw: p50 of a send with the client library", "+"+millis(late-null), millis(raw), "", "≤ +"+millis(c.added))
	return nil
}

// lone returns the median lateness of messages that are due one by one.
func lone(ctx context.Context, b *bench, open func() (core.Sink, error)) (p50 time.Duration, err error) {
	const delay = 300 * time.Millisecond
	br, err := b.openBridgeTo(ctx, open)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	var seen arrivals
	br.sink.expect(loneMessages)
	br.sink.seen = seen.note
	headers, shared := brokerHeaders(), body(bodySize)
	began := time.Now()
	for i := range loneMessages {
		time.Sleep(time.Until(began.Add(time.Duration(i) * loneEvery)))
		m := &core.Message{Sink: benchSink, Topic: brokerTopic, Body: shared, Headers: headers, Delay: delay}
		if r := br.in.Accept(ctx, m)[0]; r.Err != nil {
			return 0, r.Err
		}
	}
	select {
	case <-br.sink.reached:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return quantile(seen.late, 0.5), nil
}

// medianOf is the median of how long send takes when it is called now and then.
func medianOf(send func() error) (time.Duration, error) {
	took := make([]time.Duration, loneMessages)
	began := time.Now()
	for i := range took {
		time.Sleep(time.Until(began.Add(time.Duration(i) * loneEvery)))
		from := time.Now()
		if err := send(); err != nil {
			return 0, err
		}
		took[i] = time.Since(from)
	}
	slices.Sort(took)
	return took[loneMessages/2], nil
}

func rawLoneKafka(ctx context.Context, addrs []string) (time.Duration, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addrs...), Transport: transport}
	value := body(bodySize)
	return medianOf(func() error {
		answer, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: brokerTopic, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(value)})})
		if err == nil {
			err = answer.Error
		}
		return err
	})
}

func rawLoneRocketMQ(ctx context.Context, addrs []string) (p50 time.Duration, err error) {
	client, err := startRocketProducer(addrs)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Shutdown()) }()
	value := body(bodySize)
	return medianOf(func() error {
		result, err := client.SendSync(ctx, primitive.NewMessage(brokerTopic, value))
		if err == nil && result.Status != primitive.SendOK {
			err = fmt.Errorf("status %d", result.Status)
		}
		return err
	})
}

func rawLoneRabbitMQ(ctx context.Context, addrs []string) (p50 time.Duration, err error) {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body(bodySize)}
	err = withChannel(addrs[0], func(channel *amqp.Channel) error {
		if err := channel.Confirm(false); err != nil {
			return err
		}
		p50, err = medianOf(func() error {
			c, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", brokerTopic, true, false, message)
			if err != nil {
				return err
			}
			return confirmed(ctx, c)
		})
		return err
	})
	return p50, err
}

// openBridgeTo is openBridge with another sink, on an emptied Redis.
func (b *bench) openBridgeTo(ctx context.Context, open func() (core.Sink, error)) (*bridge, error) {
	if err := b.redis.flush(ctx); err != nil {
		return nil, err
	}
	next, err := open()
	if err != nil {
		return nil, err
	}
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{b.redis.addr}})
	if err != nil {
		return nil, err
	}
	sink := &countedSink{next: next}
	sink.expect(1)
	d := &core.Dispatcher{Name: benchSink, Sink: sink}
	whole := core.NewBridge(store, core.Options{}, d)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- whole.Run(ctx) }()
	return &bridge{in: whole.Interceptor, dispatcher: d, sink: &sink.nullSink,
		stop: func() error { cancel(); return <-ended }}, nil
}
