//go:build unix

package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// consumeKafka is a consumer group of one.
func consumeKafka(t *testing.T, brokers []string, topic string) <-chan arrival {
	t.Helper()
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: topic, GroupID: uniqueName("consumer"),
		MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
		CommitInterval: time.Second})
	arrivals, done := make(chan arrival, arrivalRoom), make(chan struct{})
	ctx := untilTestEnds(t, done)
	go func() {
		defer close(done)
		defer reader.Close()
		for ctx.Err() == nil {
			m, err := reader.ReadMessage(ctx)
			if err != nil {
				continue // the broker may be down; whoever waits for arrivals has a deadline
			}
			a := arrival{at: time.Now(), stored: m.Time, lane: m.Partition, offset: m.Offset, key: m.Key, body: m.Value}
			for _, h := range m.Headers {
				a.headers = append(a.headers, core.Header{Name: h.Key, Value: h.Value})
			}
			arrivals <- a
		}
	}()
	return arrivals
}

// quietRocket silences the client library, which has one log for the process.
var quietRocket = sync.OnceFunc(func() { rlog.SetLogLevel("fatal") })

func consumeRocket(t *testing.T, nameServers []string, topic string, more ...consumer.Option) <-chan arrival {
	t.Helper()
	quietRocket()
	name := uniqueName("consumer")
	c, err := rocketmq.NewPushConsumer(append(more, consumer.WithGroupName(name), consumer.WithInstance(name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver(nameServers)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))...)
	if err != nil {
		t.Fatalf("make a consumer: %v", err)
	}
	arrivals := make(chan arrival, arrivalRoom)
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			arrivals <- rocketArrival(m)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, take); err != nil {
		t.Fatalf("subscribe to %s: %v", topic, err)
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start a consumer: %v", err)
	}
	t.Cleanup(func() { c.Shutdown() })
	return arrivals
}

// asRocketAdmin has a consumer log in as who may read everything.
func asRocketAdmin() consumer.Option {
	return consumer.WithCredentials(primitive.Credentials{AccessKey: servers.RocketMQAdmin, SecretKey: servers.RocketMQAdminSecret})
}

// rocketArrival leaves out the properties that are not headers: RocketMQ's own
// are in capitals.
func rocketArrival(m *primitive.MessageExt) arrival {
	a := arrival{at: time.Now(), stored: time.UnixMilli(m.StoreTimestamp), lane: m.Queue.QueueId, offset: m.QueueOffset,
		key: []byte(m.GetShardingKey()), body: m.Body}
	for name, value := range m.GetProperties() {
		if name != strings.ToUpper(name) {
			a.headers = append(a.headers, core.Header{Name: name, Value: []byte(value)})
		}
	}
	return a
}

func consumeRabbit(t *testing.T, url, queue string) <-chan arrival {
	t.Helper()
	deliveries, err := rabbitChannel(t, url).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume %s: %v", queue, err)
	}
	arrivals := make(chan arrival, arrivalRoom)
	go func() { // ends with the connection
		for d := range deliveries {
			arrivals <- rabbitArrival(d)
		}
	}()
	return arrivals
}

func rabbitArrival(d amqp.Delivery) arrival {
	a := arrival{at: time.Now(), offset: int64(d.DeliveryTag), body: d.Body}
	for name, value := range d.Headers {
		text, _ := value.(string)
		a.headers = append(a.headers, core.Header{Name: name, Value: []byte(text)})
	}
	return a
}

func rabbitChannel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { connection.Close() })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	return channel
}

func declareQueue(t *testing.T, url, queue string) {
	t.Helper()
	if _, err := rabbitChannel(t, url).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatalf("declare %s: %v", queue, err)
	}
}

// declareExchange makes a durable exchange, and a queue that gets what has the
// queue's name as its routing key.
func declareExchange(t *testing.T, url, exchange, queue string) {
	t.Helper()
	declareQueue(t, url, queue)
	channel := rabbitChannel(t, url)
	if err := channel.ExchangeDeclare(exchange, "direct", true, false, false, false, nil); err != nil {
		t.Fatalf("declare %s: %v", exchange, err)
	}
	if err := channel.QueueBind(queue, queue, exchange, false, nil); err != nil {
		t.Fatalf("bind %s: %v", queue, err)
	}
}
