//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// recreatedRows delete the topic that a source reads, and make it again.
func recreatedRows() []*row {
	return []*row{{number: 55, name: "source topic recreated", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaSource,
		shape: (*run).asRecord, enter: (*run).produce, nemesis: (*run).recreateTopic,
		fault:    "the topic of a Kafka source is deleted and created again, at once or some time later, while the bridges run and while they are stopped; its records have no ids",
		expected: "nothing that Kafka accepted after that is lost, or comes twice; of what it accepted before, what was not read", drainIn: 30 * time.Second,
		needs: map[string]int{"recreated": 3, "recreated while stopped": 1, "offset given again": 200}}}
}

// recreateTopic also counts the records that have offsets which others had before.
func (r *run) recreateTopic() {
	var before []int64
	recreate := func() {
		r.countAgain(before)
		before = r.kafka.recreate(r.between(-time.Second, time.Second))
		r.reached("recreated")
	}
	running := func() {
		over, since := r.strikeClean("topic recreated"), r.caughtUp(sourceTopic, sourceGroup)
		recreate()
		r.mayLose(since, r.kafka.gone)
		over()
	}
	stopped := func() {
		over, since := r.strikeClean("topic recreated while stopped"), r.caughtUp(sourceTopic, sourceGroup)
		for _, b := range r.bridges {
			r.harmIf(b.stop())
		}
		recreate()
		r.mayLose(since, r.kafka.gone)
		time.Sleep(r.between(0, time.Second))
		for _, b := range r.bridges {
			b.start("")
		}
		over()
		r.reached("recreated while stopped")
	}
	r.shuffled(running, stopped, running)
	time.Sleep(2 * time.Second)
	r.countAgain(before)
}

func (r *run) countAgain(before []int64) {
	if before == nil {
		return
	}
	for partition, now := range r.kafka.ends(sourceTopic) {
		r.seen["offset given again"] += int(min(before[partition], now))
	}
}

const caughtUpIn = 20 * time.Second

// caughtUp waits until a source has committed all that Kafka had accepted by the time
// that it returns.
func (r *run) caughtUp(topic, group string) time.Time {
	since, ends := time.Now(), r.kafka.ends(topic)
	if !poll.Holds(caughtUpIn, func() bool { return r.kafka.hasCommitted(topic, group, ends) }) {
		r.find("L7", "the source has not read and committed what was there %s ago", caughtUpIn)
	}
	return since
}

// ends is where the partitions of a source's topic end.
func (k *kafkaTarget) ends(topic string) (ends []int64) {
	for partition := range 2 * kafkaPartitions {
		end, err := k.end(topic, partition)
		k.run.harmIf(err)
		ends = append(ends, end)
	}
	return ends
}

func (k *kafkaTarget) hasCommitted(topic, group string, ends []int64) bool {
	for partition, end := range ends {
		if k.committed(topic, group, partition) < end {
			return false
		}
	}
	return true
}

// committed is the offset that a group has of a partition; -1 if it has none, or that
// can't be told now.
func (k *kafkaTarget) committed(topic, group string, partition int) int64 {
	answer, err := k.client.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {partition}}})
	if err != nil || len(answer.Topics[topic]) != 1 || answer.Topics[topic][0].Error != nil {
		return -1
	}
	return answer.Topics[topic][0].CommittedOffset
}

// recreate deletes the topic of the source, waits until no record can get into it any
// more, and creates it again some time later. It returns where its partitions ended.
func (k *kafkaTarget) recreate(later time.Duration) (ends []int64) {
	r := k.run
	ends = k.ends(sourceTopic)
	answer, err := k.client.DeleteTopics(context.Background(), &kafka.DeleteTopicsRequest{Topics: []string{sourceTopic}})
	if err == nil {
		err = answer.Errors[sourceTopic]
	}
	if err != nil {
		r.Fatalf("delete topic: %v", err)
	}
	for partition := range ends {
		for k.has(partition) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(later)
	k.gone = time.Now()
	k.cluster.CreateTopic(sourceTopic, len(ends))
	return ends
}

// has tells whether the broker may still have a partition of the source's topic.
func (k *kafkaTarget) has(partition int) bool {
	raw, err := net.DialTimeout("tcp", k.cluster.Addrs()[0], callTimeout)
	if err != nil {
		k.run.harm(fmt.Errorf("ask for a partition: %w", err))
		return false
	}
	conn := kafka.NewConnWith(raw, kafka.ConnConfig{Topic: sourceTopic, Partition: partition})
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout)) // without one it takes longer
	_, err = conn.ReadLastOffset()
	return !errors.Is(err, kafka.UnknownTopicOrPartition)
}
