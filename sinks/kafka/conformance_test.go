//go:build unix

package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

// testCluster is a real Kafka as the tests use it.
type testCluster struct {
	*servers.KafkaCluster
	client *kafka.Client // not through any fault
	topics atomic.Int32
}

func startCluster(t testing.TB, o servers.KafkaOptions) *testCluster {
	t.Helper()
	c := &testCluster{KafkaCluster: servers.Kafka(t, o)}
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	c.client = &kafka.Client{Addr: kafka.TCP(c.Addrs()...), Transport: transport}
	return c
}

func (c *testCluster) topic(partitions int, config ...string) string {
	name := fmt.Sprintf("t.%d.%d", time.Now().UnixMilli(), c.topics.Add(1))
	c.CreateTopic(name, partitions, config...)
	return name
}

// consume reads all partitions of a topic from the first record on, with nil
// values kept apart from empty ones.
func (c *testCluster) consume(t testing.TB, topic string) sinktest.Reader {
	var ready []sinktest.Received
	offsets := map[int]int64{}
	return func(ctx context.Context) (sinktest.Received, error) {
		for len(ready) == 0 {
			if ctx.Err() != nil {
				return sinktest.Received{}, ctx.Err()
			}
			more, err := c.fetch(ctx, topic, offsets)
			if err != nil {
				return sinktest.Received{}, err
			}
			ready = more
		}
		first := ready[0]
		ready = ready[1:]
		return first, nil
	}
}

// fetch reads what there is beyond offsets in any partition, and moves them on.
func (c *testCluster) fetch(ctx context.Context, topic string, offsets map[int]int64) ([]sinktest.Received, error) {
	answer, err := c.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	var received []sinktest.Received
	for _, p := range answer.Topics[0].Partitions {
		fetched, err := c.client.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Partition: p.ID, Offset: offsets[p.ID],
			MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 10 * time.Millisecond})
		if err != nil || fetched.Error != nil {
			continue // asked again, until ctx ends
		}
		for {
			r, err := fetched.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if r.Offset < offsets[p.ID] {
				continue
			}
			offsets[p.ID] = r.Offset + 1
			received = append(received, asReceived(r, p.ID))
		}
	}
	return received, nil
}

func asReceived(r *protocol.Record, partition int) sinktest.Received {
	key, _ := protocol.ReadAll(r.Key)
	value, _ := protocol.ReadAll(r.Value)
	received := sinktest.Received{Key: key, Body: value, Lane: strconv.Itoa(partition)}
	for _, h := range r.Headers {
		received.Headers = append(received.Headers, core.Header{Name: h.Key, Value: h.Value})
	}
	return received
}

// kit is what a Kafka of any version can do.
func (c *testCluster) kit(t testing.TB) sinktest.Kit {
	return c.kitOf(t, func(t testing.TB, wire *sinktest.Wire, settings map[string]any) core.Sink {
		return openTest(t, c.Addrs(), settings, wire.Dial)
	})
}

// kitOf is kit with a way of its own to open a sink that dials through a wire.
func (c *testCluster) kitOf(t testing.TB, opener func(testing.TB, *sinktest.Wire, map[string]any) core.Sink) sinktest.Kit {
	wire := sinktest.NewWire(t)
	open := func(t testing.TB) core.Sink {
		return opener(t, wire, map[string]any{"max_message_bytes": kitMaxBatch})
	}
	faults := wire.Faults()
	faults.Restart = func(testing.TB) { c.Node(0).Kill(); c.Node(0).Start() }
	return sinktest.Kit{
		Open:     open,
		NewTopic: func(testing.TB) string { return c.topic(4, "max.message.bytes="+strconv.Itoa(kitMaxBatch)) },
		Consume:  c.consume,
		Can: []sinktest.Capability{sinktest.Headers, sinktest.HeaderOrder, sinktest.RepeatedHeaders,
			sinktest.BinaryHeaders, sinktest.NullHeaders, sinktest.EmptyBody, sinktest.NullBody, sinktest.Keys,
			sinktest.NullKeys, sinktest.Ordered, sinktest.Lanes},
		Hostile: []*core.Message{{Topic: "__consumer_offsets"}, {Topic: "__transaction_state"}, {Topic: ".."}},
		MissingTopic: &sinktest.Refusal{Class: core.TopicBlocked,
			Topic: func(testing.TB) string { return fmt.Sprintf("missing.%d", c.topics.Add(1)) }},
		NegativeConfirm: &sinktest.Refusal{Class: core.Permanent,
			Topic: func(testing.TB) string { return c.topic(1, "cleanup.policy=compact") }}, // messages without a key
		MaxBody: kitMaxBatch - acceptedSize(&core.Message{}),
		Faults:  faults,
		// The tests' own client connect again when the broker answers slowly; the
		// sink's connections are of another type.
		Leaks: []string{"github.com/segmentio/kafka-go.(*conn).run"},
	}
}

const kitMaxBatch = 64 << 10

func TestConformance(t *testing.T) {
	for _, version := range []string{servers.Kafka3, servers.Kafka4} {
		t.Run(version, func(t *testing.T) {
			sinktest.Run(t, startCluster(t, servers.KafkaOptions{Version: version}).kit(t))
		})
	}
}
