//go:build unix

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// target is a broker in the eyes of one test: a sink's configuration, what the
// sink can carry, and an ordinary consumer of what arrives.
type target struct {
	kind     string         // the sink's type
	config   map[string]any // of the sink
	topic    string
	partings []parting
	// consume reads topic from its beginning until the test ends.
	consume func(t *testing.T) <-chan arrival
}

// parting is something of a message that a broker can't carry.
type parting int

const (
	noBinary  parting = iota // keys and header values are text
	noRepeats                // a header's name is there once
	noNulls                  // a header has a value
	noOrder                  // headers have no order
	noKey                    // consumers do not see the key
)

func (g *target) lacks(p parting) bool { return slices.Contains(g.partings, p) }

// arrival is a message as a consumer has it.
type arrival struct {
	at      time.Time // when the consumer had it
	stored  time.Time // when it reached the broker, as the record says; zero if it does not
	lane    int       // partition or queue
	offset  int64     // in lane, in the order of the broker
	key     []byte
	body    []byte
	headers []core.Header
}

// arrivalRoom is more than any test sends, so that consumers never wait for it.
const arrivalRoom = 1 << 16

func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, rand.Uint64()) }

func kafkaTarget(t *testing.T, version string) *target {
	t.Helper()
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: version})
	topic := uniqueName("orders")
	cluster.CreateTopic(topic, 4)
	return newKafkaTarget(cluster, topic)
}

func newKafkaTarget(cluster *servers.KafkaCluster, topic string) *target {
	return &target{kind: "kafka", topic: topic, config: map[string]any{"brokers": cluster.Addrs()},
		consume: func(t *testing.T) <-chan arrival { return consumeKafka(t, cluster.Addrs(), topic) }}
}

func rocketTarget(t *testing.T, version string) *target {
	t.Helper()
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Version: version})
	topic := uniqueName("orders")
	cluster.CreateTopic(topic, 4)
	return newRocketTarget(cluster, topic)
}

func newRocketTarget(cluster *servers.RocketMQCluster, topic string, more ...consumer.Option) *target {
	return &target{kind: "rocketmq", topic: topic, config: map[string]any{"name_servers": cluster.NameServers()},
		partings: []parting{noBinary, noRepeats, noNulls, noOrder},
		consume:  func(t *testing.T) <-chan arrival { return consumeRocket(t, cluster.NameServers(), topic, more...) }}
}

func rabbitTarget(t *testing.T) *target {
	t.Helper()
	server := servers.RabbitMQ(t)
	queue := uniqueName("orders")
	declareQueue(t, server.URL(), queue)
	return newRabbitTarget(server.URL(), queue)
}

func newRabbitTarget(url, queue string) *target {
	return &target{kind: "amqp", topic: queue, config: map[string]any{"urls": []string{url}},
		partings: []parting{noRepeats, noOrder, noKey},
		consume:  func(t *testing.T) <-chan arrival { return consumeRabbit(t, url, queue) }}
}

// untilTestEnds is a context for consumers, and a wait for them to be done.
func untilTestEnds(t *testing.T, done <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); <-done })
	return ctx
}
