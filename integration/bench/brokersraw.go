//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
)

// rawHeaders are those of a delivered message, of which the client library has
// to write as many bytes as our sink.
func rawHeaders() []core.Header {
	m := &core.Message{ID: "0123456789abcdefghijklm", Attempt: 1, DeliverAt: time.Now(), Headers: brokerHeaders()}
	return m.DeliveredHeaders()
}

// rawShared has callers share n messages, each taking so many at once, and
// returns messages a second.
func rawShared(callers, n, batch int, send func(batch, caller int) error) (perSecond float64, err error) {
	var next, caller atomic.Int64
	began := time.Now()
	err = parallel(callers, func() error {
		me := int(caller.Add(1) - 1)
		for next.Add(int64(batch)) <= int64(n) {
			if err := send(batch, me); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(n) / time.Since(began).Seconds(), err
}

// rawKafka: a caller for each partition, a thousand records a request,
// acknowledged by all.
func rawKafka(ctx context.Context, addrs []string, topic string, n int) (float64, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addrs...), Transport: transport}
	var headers []kafka.Header
	for _, h := range rawHeaders() {
		headers = append(headers, kafka.Header{Key: h.Name, Value: h.Value})
	}
	key, value := []byte("123456"), body(bodySize)
	return rawShared(brokerPartitions, n, 1000, func(batch, partition int) error {
		records := make([]kafka.Record, batch)
		for i := range records {
			records[i] = kafka.Record{Key: kafka.NewBytes(key), Value: kafka.NewBytes(value), Headers: headers}
		}
		answer, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: partition,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
		if err != nil {
			return err
		}
		return answer.Error
	})
}

// rawRocketMQ: batches of a hundred from four callers.
func rawRocketMQ(ctx context.Context, addrs []string, topic string, n int) (rate float64, err error) {
	name := fmt.Sprintf("raw-%d", time.Now().UnixNano())
	client, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(addrs)),
		producer.WithGroupName(name), producer.WithInstanceName(name), producer.WithRetry(0))
	if err != nil {
		return 0, err
	}
	if err := client.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Shutdown()) }()
	headers, shared := rawHeaders(), body(bodySize)
	return rawShared(4, n, 100, func(batch, _ int) error {
		messages := make([]*primitive.Message, batch)
		for i := range messages {
			messages[i] = primitive.NewMessage(topic, shared)
			for _, h := range headers {
				messages[i].WithProperty(h.Name, string(h.Value))
			}
			messages[i].WithShardingKey("123456")
		}
		result, err := client.SendSync(ctx, messages...)
		if err == nil && result.Status != primitive.SendOK {
			err = fmt.Errorf("status %d", result.Status)
		}
		return err
	})
}

// rawRabbitMQ: persistent and mandatory, with a deep window of unconfirmed
// messages, on one channel or on several, whichever is faster.
func rawRabbitMQ(ctx context.Context, addrs []string, topic string, n int) (rate float64, err error) {
	conn, err := amqp.Dial(addrs[0])
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, channels := range []int{1, 16} {
		began := time.Now()
		err := parallel(channels, func() error { return rawPublish(ctx, conn, topic, n/channels) })
		if err != nil {
			return 0, err
		}
		rate = max(rate, float64(n)/time.Since(began).Seconds())
	}
	return rate, nil
}

// rawPublish publishes n messages on a channel of its own.
func rawPublish(ctx context.Context, conn *amqp.Connection, topic string, n int) error {
	const window = 2000
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	table := amqp.Table{}
	for _, h := range rawHeaders() {
		table[h.Name] = string(h.Value)
	}
	message := amqp.Publishing{Headers: table, DeliveryMode: amqp.Persistent, MessageId: "0123456789abcdefghijklm", Body: body(bodySize)}
	confirms := make([]*amqp.DeferredConfirmation, 0, n)
	for i := range n {
		if i >= window {
			if err := confirmed(ctx, confirms[i-window]); err != nil {
				return err
			}
		}
		c, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", topic, true, false, message)
		if err != nil {
			return err
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms[max(0, n-window):] {
		if err := confirmed(ctx, c); err != nil {
			return err
		}
	}
	return channel.Close()
}

func confirmed(ctx context.Context, c *amqp.DeferredConfirmation) error {
	ok, err := c.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("the broker refused a message")
	}
	return err
}

// declareQueue makes a durable queue.
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
