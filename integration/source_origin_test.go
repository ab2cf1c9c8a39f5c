//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// origin is where tagged messages lie before the bridge reads them.
type origin struct {
	source   sourceConfig // but for the sink and its topic
	partings []parting    // what of a message it can't carry
	// produce writes messages with a header that says when they are due, and sets
	// their IDs, or what these begin with, where the position gives them. One goroutine calls it.
	produce func(batch []accepted) error
	// left is how many messages the origin has that were not acknowledged.
	left func() (int64, error)
}

const (
	numberHeader = "number" // tells messages apart, whatever ID they get
	tagHeader    = core.HeaderDeliverAt
	sourceName   = "orders"
	writtenIn    = 2 * time.Minute // even if the broker stands still meanwhile
)

// tagged are the headers of m with the one that says when it is due among them.
func tagged(m accepted) []core.Header {
	tag := core.Header{Name: tagHeader, Value: []byte(m.deliverAt.UTC().Format(core.TimeFormat))}
	return slices.Insert(slices.Clone(m.headers), len(m.headers)/2, tag)
}

// kafkaOrigin is a topic of four partitions, each of which is written to in turn.
func kafkaOrigin(t *testing.T) *origin {
	t.Helper()
	const partitions = 4
	// A killed member must be missed quickly: it will be killed often.
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4, Config: map[string]string{"group.min.session.timeout.ms": "1000"}})
	topic, group := uniqueName("orders")+".delayed", uniqueName("group")
	cluster.CreateTopic(topic, partitions)
	transport := &kafka.Transport{DialTimeout: writtenIn}
	t.Cleanup(transport.CloseIdleConnections)
	client := &kafka.Client{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport, Timeout: writtenIn}
	var ends [partitions]int64
	turn := 0
	produce := func(batch []accepted) error {
		partition := turn % partitions
		turn++
		answer, err := client.Produce(context.Background(), &kafka.ProduceRequest{Topic: topic, Partition: partition,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(kafkaRecords(batch)...)})
		if err = errors.Join(err, errorOf(answer)); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		for n := range batch {
			batch[n].ID = fmt.Sprintf("k:%s:%s:%d:%d:", sourceName, topic, partition, answer.BaseOffset+int64(n))
		}
		ends[partition] = answer.BaseOffset + int64(len(batch))
		return nil
	}
	left := func() (left int64, err error) {
		answer, err := client.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3}}})
		if err != nil {
			return 0, err
		}
		err = answer.Error
		for _, p := range answer.Topics[topic] {
			left += ends[p.Partition] - p.CommittedOffset
			err = errors.Join(err, p.Error)
		}
		return left, err
	}
	return &origin{produce: produce, left: left, source: sourceConfig{"kafka", map[string]any{"brokers": cluster.Addrs(),
		"on_bad_record": "stop", "topics": []string{topic}, "group": group, "session_timeout": "2s"}}}
}

func errorOf(answer *kafka.ProduceResponse) error {
	if answer == nil {
		return nil // there is another
	}
	return answer.Error
}

func kafkaRecords(batch []accepted) []kafka.Record {
	records := make([]kafka.Record, len(batch))
	for n, m := range batch {
		records[n] = kafka.Record{Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Body)}
		for _, h := range tagged(m) {
			records[n].Headers = append(records[n].Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
	}
	return records
}

// rabbitOrigin is a queue.
func rabbitOrigin(t *testing.T) *origin {
	t.Helper()
	server := servers.RabbitMQ(t)
	queue := uniqueName("orders") + ".delayed"
	declareQueue(t, server.URL(), queue)
	channel := rabbitChannel(t, server.URL())
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	produce := func(batch []accepted) error {
		var confirms []*amqp.DeferredConfirmation
		for n, m := range batch {
			batch[n].ID = "r:" + sourceName + ":" + queue + ":" + messageID(m)
			c, err := channel.PublishWithDeferredConfirm("", queue, false, false, rabbitPublishing(m))
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			confirms = append(confirms, c)
		}
		for _, c := range confirms {
			if !c.Wait() {
				return errors.New("publish: not confirmed")
			}
		}
		return nil
	}
	left := func() (int64, error) { return rabbitLength(server.URL(), queue) }
	return &origin{produce: produce, left: left, partings: []parting{noRepeats, noOrder},
		source: sourceConfig{"amqp", map[string]any{"urls": []string{server.URL()}, "queues": []string{queue}, "on_bad_record": "stop", "properties": "none"}}}
}

func rabbitLength(url, queue string) (int64, error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return 0, err
	}
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	return int64(state.Messages), err
}

func messageID(m accepted) string { return "m-" + string(m.headers[0].Value) }

// rabbitPublishing has the key in a header of ours, as AMQP has none.
func rabbitPublishing(m accepted) amqp.Publishing {
	table := amqp.Table{core.HeaderPrefix + "key": string(m.Key)}
	for _, h := range tagged(m) {
		table[h.Name] = string(h.Value)
		if h.Value == nil {
			table[h.Name] = nil
		}
	}
	return amqp.Publishing{MessageId: messageID(m), DeliveryMode: amqp.Persistent, Headers: table, Body: m.Body}
}

// rocketOrigin is a topic of four queues.
func rocketOrigin(t *testing.T) *origin {
	t.Helper()
	quietRocket()
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Version: servers.RocketMQ5})
	topic, group, name := uniqueName("orders")+"-delayed", uniqueName("group"), uniqueName("producer")
	cluster.CreateTopic(topic, 4)
	client, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(cluster.NameServers())),
		producer.WithGroupName(name), producer.WithInstanceName(name), producer.WithRetry(0)) // we count what we send again
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Shutdown() })
	produce := func(batch []accepted) error {
		return poll.Succeeds(writtenIn, func() error { return rocketSend(client, topic, batch) })
	}
	left := func() (int64, error) { return rocketLag(t, cluster.NameServers()[0], group) }
	return &origin{produce: produce, left: left, partings: []parting{noBinary, noRepeats, noNulls, noOrder},
		source: sourceConfig{"rocketmq", map[string]any{"name_servers": cluster.NameServers(), "on_bad_record": "stop", "topics": []string{topic}, "group": group}}}
}

// rocketSend waits for three seconds, as the client does it. What it has sent by
// then and sends again may be stored twice.
func rocketSend(client rocketmq.Producer, topic string, batch []accepted) error {
	messages := make([]*primitive.Message, len(batch))
	for n := range batch {
		batch[n].sends++
		messages[n] = rocketMessage(topic, batch[n])
	}
	result, err := client.SendSync(context.Background(), messages...)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if result.Status != primitive.SendOK {
		return fmt.Errorf("send: %v", result)
	}
	return nil
}

func rocketMessage(topic string, m accepted) *primitive.Message {
	message := primitive.NewMessage(topic, m.Body)
	for _, h := range tagged(m) {
		message.WithProperty(h.Name, string(h.Value))
	}
	return message.WithShardingKey(string(m.Key))
}

// rocketLag asks RocketMQ's own admin tool what a group has not consumed.
func rocketLag(t *testing.T, nameServer, group string) (lag int64, err error) {
	t.Helper()
	out, err := servers.TryJava(t, "rocketmq", servers.RocketMQ5, "", "org.apache.rocketmq.tools.command.MQAdminStartup",
		"consumerProgress", "-n", nameServer, "-g", group)
	if err != nil {
		return 0, err
	}
	const label = "Consume Diff Total: "
	_, rest, found := strings.Cut(out, label)
	if _, err := fmt.Sscan(rest, &lag); !found || err != nil {
		return 0, fmt.Errorf("no %q in %s", label, out)
	}
	if lag != 0 {
		t.Logf("%s:\n%s", group, out)
	}
	return lag, nil
}
