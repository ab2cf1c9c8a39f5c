//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
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

// shapes are those in which a raw loop may run. The first round tries all of
// them and chooses the best; the others run that one only, so that raw has no
// more tries than ours.
type shapes[S any] struct {
	all    []S
	chosen []S
}

// run returns the best rate. A shape that fails, as a broker may push back, is
// passed over while another works.
func (s *shapes[S]) run(try func(S) (perSecond float64, err error)) (best float64, err error) {
	candidates := s.all
	if s.chosen != nil {
		candidates = s.chosen
	}
	for _, shape := range candidates {
		rate, failed := try(shape)
		err = errors.Join(err, failed)
		if rate > best {
			best, s.chosen = rate, []S{shape}
		}
	}
	if best > 0 {
		return best, nil
	}
	return 0, err
}

// rocketShape is how many messages go into a request, and from how many callers.
type rocketShape struct{ batch, callers int }

// rawRocketMQ: batches of the library's own messages.
func rawRocketMQ() rawBurst {
	tried := &shapes[rocketShape]{all: []rocketShape{{100, 4}, {500, 4}, {500, 8}}}
	headers := rocketHeaders()
	return rawRocketShapes(tried, func(topic string, shared []byte, ids *atomic.Int64, n int) []*primitive.Message {
		batch := make([]*primitive.Message, n)
		for i := range batch {
			m := primitive.NewMessage(topic, shared)
			for _, h := range headers {
				m.WithProperty(h.Name, string(h.Value))
			}
			batch[i] = m.WithKeys([]string{fmt.Sprintf("%022d", ids.Add(1))})
		}
		return batch
	})
}

// rawRocketEncoded: batches that are made by hand, as the library is half as
// fast when it makes them.
func rawRocketEncoded() rawBurst {
	tried := &shapes[rocketShape]{all: []rocketShape{{500, 4}, {500, 8}, {1000, 4}}}
	properties := rocketProperties()
	return rawRocketShapes(tried, func(topic string, shared []byte, ids *atomic.Int64, n int) []*primitive.Message {
		return []*primitive.Message{{Topic: topic, Batch: true, Body: rocketBatch(properties, shared, ids, n)}}
	})
}

// rocketBatchOf makes a batch of n messages with a body and a number each.
type rocketBatchOf func(topic string, body []byte, ids *atomic.Int64, n int) []*primitive.Message

func rawRocketShapes(tried *shapes[rocketShape], batchOf rocketBatchOf) rawBurst {
	return func(ctx context.Context, addrs []string, topic string, n int) (rate float64, err error) {
		client, err := startRocketProducer(addrs)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, client.Shutdown()) }()
		shared, ids := body(bodySize), &atomic.Int64{}
		return tried.run(func(s rocketShape) (float64, error) {
			return rawShared(s.callers, n, s.batch, func(batch, _ int) error {
				result, err := client.SendSync(ctx, batchOf(topic, shared, ids, batch)...)
				if err == nil && result.Status != primitive.SendOK {
					err = fmt.Errorf("status %d", result.Status)
				}
				return err
			})
		})
	}
}

func startRocketProducer(addrs []string) (rocketmq.Producer, error) {
	name := fmt.Sprintf("raw-%d", time.Now().UnixNano())
	client, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(addrs)),
		producer.WithGroupName(name), producer.WithInstanceName(name), producer.WithRetry(0),
		producer.WithCompressMsgBodyOverHowmuch(math.MaxInt))
	if err != nil {
		return nil, err
	}
	return client, client.Start()
}

// rocketHeaders are the properties of a message of our sink, but for the key.
func rocketHeaders() []core.Header {
	return append(rawHeaders(), core.Header{Name: "__SHARDINGKEY", Value: []byte("123456")},
		core.Header{Name: "SHARDING_KEY", Value: []byte("123456")})
}

// rocketProperties are those of a message of our sink, as they are on the wire.
// The last is the ID, as a key.
func rocketProperties() []byte {
	var properties []byte
	for _, h := range append(rocketHeaders(), core.Header{Name: "KEYS", Value: []byte("0123456789abcdefghijklm")}) {
		properties = append(append(properties, h.Name...), 1)
		properties = append(append(properties, h.Value...), 2)
	}
	return properties
}

// rocketBatch is the body of a batch request: of each message the total length,
// three fields that are zero, and body and properties with their lengths. Each
// has a key of its own, as the broker keeps an index of them.
func rocketBatch(properties, body []byte, ids *atomic.Int64, n int) []byte {
	const digits = 16
	each := 22 + len(body) + len(properties)
	batch := make([]byte, 0, n*each)
	last := ids.Add(int64(n))
	for i := range n {
		batch = binary.BigEndian.AppendUint32(batch, uint32(each))
		batch = append(batch, make([]byte, 12)...)
		batch = append(binary.BigEndian.AppendUint32(batch, uint32(len(body))), body...)
		batch = append(binary.BigEndian.AppendUint16(batch, uint16(len(properties))), properties...)
		strconv.AppendInt(batch[:len(batch)-1-digits], 1e15+last-int64(i), 10) // over the end of the key
		batch[len(batch)-1] = 2
	}
	return batch
}

// rabbitShape is over how many connections and channels in all messages go, and
// how many may be unconfirmed on each channel.
type rabbitShape struct{ connections, channels, window int }

// rawRabbitMQ: persistent and mandatory, with deep windows of unconfirmed
// messages. Each shape begins with an empty queue, as a long one is slow.
func rawRabbitMQ() rawBurst {
	tried := &shapes[rabbitShape]{all: []rabbitShape{{1, 1, 5000}, {1, 16, 2000}, {2, 4, 1000}}}
	return func(ctx context.Context, addrs []string, topic string, n int) (float64, error) {
		return tried.run(func(s rabbitShape) (float64, error) {
			if err := purgeQueue(addrs[0], topic); err != nil {
				return 0, err
			}
			return rawRabbitShape(ctx, addrs[0], topic, n, s)
		})
	}
}

func rawRabbitShape(ctx context.Context, url, topic string, n int, s rabbitShape) (rate float64, err error) {
	connections := make(chan *amqp.Connection, s.channels)
	for range s.connections {
		connection, err := amqp.Dial(url)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, connection.Close()) }()
		for range s.channels / s.connections {
			connections <- connection
		}
	}
	began := time.Now()
	err = parallel(s.channels, func() error { return rawPublish(ctx, <-connections, topic, n/s.channels, s.window) })
	return float64(n) / time.Since(began).Seconds(), err
}

// rawPublish publishes n messages on a channel of its own.
func rawPublish(ctx context.Context, conn *amqp.Connection, topic string, n, window int) error {
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
func declareQueue(url, name string) error {
	return withChannel(url, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(name, true, false, false, false, nil)
		return err
	})
}

// purgeQueue empties a queue.
func purgeQueue(url, name string) error {
	return withChannel(url, func(channel *amqp.Channel) error {
		_, err := channel.QueuePurge(name, false)
		return err
	})
}

func withChannel(url string, work func(*amqp.Channel) error) (err error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	return work(channel)
}
