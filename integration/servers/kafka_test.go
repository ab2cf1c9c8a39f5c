//go:build unix

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	for _, version := range []string{servers.Kafka3, servers.Kafka4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cluster := servers.Kafka(t, servers.KafkaOptions{Version: version})
			cluster.CreateTopic("small", 2, "max.message.bytes=1000")
			cluster.CreateTopic("small", 2) // is there
			for _, body := range []string{"a", "b"} {
				if err := produce(t, cluster, "small", body); err != nil {
					t.Fatal(err)
				}
				cluster.Node(0).Kill()
				cluster.Node(0).Start()
			}
			if err := produce(t, cluster, "small", string(make([]byte, 2000))); err == nil {
				t.Error("max.message.bytes is not held")
			}
			if got, want := topicEnd(t, cluster, "small"), int64(2); got != want {
				t.Errorf("after two messages, each with kill and start: end %d, want %d", got, want)
			}
			if topicExists(t, cluster, "other") || !topicExists(t, cluster, "small") {
				t.Error("a topic came to be by a look at it")
			}
		})
	}
}

func TestKafkaClusterGoesOnWithoutANode(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Nodes: 3})
	cluster.CreateTopic("t", 1)
	cluster.Node(1).Pause()
	poll.Until(t, patience, "two of three accept", func() bool {
		return tryToProduce(t, cluster, "t", "a") == nil
	})
	cluster.Node(1).Resume()
	leader := cluster.Leader("t", 0)
	cluster.Node(leader).Stop()
	if next := cluster.Leader("t", 0); next == leader {
		t.Errorf("node %d leads, and has stopped", leader)
	}
	poll.Until(t, patience, "the other two accept", func() bool {
		return tryToProduce(t, cluster, "t", "b") == nil
	})
}

func TestKafkaAdvertisesAProxy(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{AdvertiseHost: "127.0.0.2"})
	view, err := kafkaClient(t, cluster).Metadata(t.Context(), &kafka.MetadataRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if b := view.Brokers[0]; fmt.Sprintf("%s:%d", b.Host, b.Port) == cluster.Addrs()[0] || b.Host != "127.0.0.2" {
		t.Errorf("advertises %s, want 127.0.0.2", b.Host)
	}
}

func TestKafkaLogins(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Users: map[string]string{"u": "secret"}})
	cluster.CreateTopic("t", 1)
	cluster.CreateTopic("open", 1)
	cluster.Allow("u", "t", servers.KafkaDescribe)
	write := func(password, topic string) error {
		transport := &kafka.Transport{DialTimeout: patience, SASL: plain.Mechanism{Username: "u", Password: password}}
		defer transport.CloseIdleConnections()
		return produceWith(t, &kafka.Client{Addr: kafka.TCP(cluster.LoginAddrs()...), Transport: transport}, patience, topic, "a")
	}
	if write("wrong", "open") == nil {
		t.Error("a wrong password will do")
	}
	if err := write("secret", "open"); err != nil {
		t.Errorf("to a topic of which nothing is said: %v", err)
	}
	if err := write("secret", "t"); !errors.Is(err, kafka.TopicAuthorizationFailed) {
		t.Errorf("without permission: %v", err)
	}
	cluster.Allow("u", "t", servers.KafkaWrite)
	poll.Until(t, patience, "permission holds", func() bool { return write("secret", "t") == nil })
}

// patience is for what a server on a busy machine does at last.
const patience = 90 * time.Second

func kafkaClient(t *testing.T, cluster *servers.KafkaCluster) *kafka.Client {
	transport := &kafka.Transport{DialTimeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport}
}

// produce sends one record to partition 0.
func produce(t *testing.T, cluster *servers.KafkaCluster, topic, body string) error {
	t.Helper()
	return produceWith(t, kafkaClient(t, cluster), patience, topic, body)
}

// tryToProduce is produce for who will try again, with another leader.
func tryToProduce(t *testing.T, cluster *servers.KafkaCluster, topic, body string) error {
	t.Helper()
	return produceWith(t, kafkaClient(t, cluster), 5*time.Second, topic, body)
}

func produceWith(t *testing.T, client *kafka.Client, timeout time.Duration, topic, body string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	answer, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(body))}),
	})
	if err != nil {
		return err
	}
	return answer.Error
}

func topicExists(t *testing.T, cluster *servers.KafkaCluster, topic string) bool {
	t.Helper()
	view, err := kafkaClient(t, cluster).Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	return view.Topics[0].Error == nil
}

func topicEnd(t *testing.T, cluster *servers.KafkaCluster, topic string) int64 {
	t.Helper()
	answer, err := kafkaClient(t, cluster).ListOffsets(t.Context(), &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.LastOffsetOf(0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Topics[topic][0].LastOffset
}
