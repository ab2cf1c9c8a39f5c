//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// kafkaTarget is a Kafka whose records have the time at which it
// stored them.
type kafkaTarget struct {
	run     *run
	cluster *servers.KafkaCluster
	client  *kafka.Client
	gone    time.Time // when nothing could get into the source's topic any more that was deleted last
}

const kafkaPartitions = 2

// startKafka starts one of so many nodes, that ends with the run.
func (r *run) startKafka(nodes int) *kafkaTarget {
	cluster := servers.Kafka(r, servers.KafkaOptions{Version: servers.Kafka4, Nodes: nodes, Controllers: 1, Config: map[string]string{
		"log.message.timestamp.type": "LogAppendTime"}})
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	r.Cleanup(transport.CloseIdleConnections)
	k := &kafkaTarget{run: r, cluster: cluster,
		client: &kafka.Client{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport, Timeout: 5 * time.Second}}
	return k
}

// kafkaSinks delivers to a Kafka with the topic of the load.
func kafkaSinks(r *run) string { return r.kafkaSinks(1) }

func (r *run) kafkaSinks(nodes int) string {
	r.kafka = r.startKafka(nodes)
	r.kafka.topic("orders")
	return r.kafka.sinks()
}

func (k *kafkaTarget) sinks() string {
	return fmt.Sprintf(`out: {type: kafka, timeout: 3s, config: {brokers: ["%s"], request_timeout: 2s}}`, strings.Join(k.cluster.Addrs(), `","`))
}

// topic makes a topic and has all of it noted.
func (k *kafkaTarget) topic(name string, config ...string) {
	k.cluster.CreateTopic(name, kafkaPartitions, config...)
	for partition := range kafkaPartitions {
		k.follow(name, partition)
	}
}

const kafkaTries = 10

// set sets a property of a topic. A cluster that has just lost a node may need
// some time until it does.
func (k *kafkaTarget) set(topic, name, value string) {
	var err error
	for range kafkaTries {
		if err = k.trySet(topic, name, value); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	k.run.Fatalf("set %s of %s: %v", name, topic, err)
}

func (k *kafkaTarget) trySet(topic, name, value string) error {
	answer, err := k.client.IncrementalAlterConfigs(context.Background(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}}}}})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

const kafkaPoll = 100 * time.Millisecond

// follow notes a partition from its beginning, until the run is over and its end
// is reached. Offsets do not repeat, so neither does it.
func (k *kafkaTarget) follow(topic string, partition int) {
	r, ended := k.run, make(chan struct{})
	r.Cleanup(func() { close(ended) })
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: k.cluster.Addrs(), Topic: topic, Partition: partition,
		MinBytes: 1, MaxBytes: 8 << 20, MaxWait: kafkaPoll, ReadBackoffMax: 2 * kafkaPoll})
	r.tails.Go(func() {
		defer reader.Close()
		for next := int64(0); ; {
			ctx, cancel := context.WithTimeout(context.Background(), kafkaPoll)
			m, err := reader.ReadMessage(ctx)
			cancel()
			if err == nil {
				r.land(kafkaLanding(m))
				next = m.Offset + 1
				continue
			}
			select {
			case <-ended: // the harness failed
				return
			case <-r.over:
				if end, err := k.end(topic, partition); err != nil || next >= end {
					r.harmIf(err)
					return
				}
			default: // the broker may be down
			}
		}
	})
}

func kafkaLanding(m kafka.Message) landing {
	l := landing{topic: m.Topic, key: string(m.Key), body: string(m.Value), stored: m.Time}
	for _, h := range m.Headers {
		value := string(h.Value)
		l.headers = append(l.headers, header{h.Key, &value})
	}
	return l
}

// end is the offset behind the last record.
func (k *kafkaTarget) end(topic string, partition int) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := kafka.DialLeader(ctx, "tcp", k.cluster.Addrs()[0], topic, partition)
	if err != nil {
		return 0, fmt.Errorf("find the end of %s: %w", topic, err)
	}
	defer conn.Close()
	return conn.ReadLastOffset()
}
