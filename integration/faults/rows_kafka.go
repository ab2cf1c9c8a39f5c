//go:build unix

package main

import (
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// kafkaRows are troubles of Kafka as the target.
func kafkaRows() []*row {
	return []*row{
		{number: 24, name: "Kafka in trouble", level: "fsync", bridges: 2, set: safeRedis, sink: twoKafkas, shape: (*run).plain, nemesis: (*run).troubleKafka,
			fault:    "of two nodes that both have to confirm one is stopped for 4 to 6 s, either is killed with -9 and started again, or stopped by SIGSTOP for 4 to 8 s, in the order of the seed",
			expected: "what is refused waits; repeats only where Kafka did not answer, or could not say", perFault: 400, drainIn: 20 * time.Second,
			needs: map[string]int{"refused for want of replicas": 20, "killed": 1, "paused": 1, "attempts over 1": 1}},
		{number: 25, name: "refused for good", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaWithSmallTopic, shape: (*run).someImpossible, nemesis: (*run).refuseSome,
			fault:    "a part of the load is too large for its topic, whose limit is lowered while it is parked; another is for a topic that is made only at the end",
			expected: "dead letters after one attempt; what has no topic waits; neighbours are in time", needs: map[string]int{"dead": 20, "held for want of a topic": 20}},
	}
}

func twoKafkas(r *run) string { return r.kafkaSinks(2) }

func (r *run) troubleKafka() {
	either := func() *servers.Node { return r.kafka.cluster.Node(r.dice.IntN(2)) }
	r.shuffled(r.starveKafka, func() {
		node := either()
		r.outage("kafka killed", node.Kill, node.Start, 100*time.Millisecond, 4*time.Second)
		r.reached("killed")
	}, func() {
		node := either()
		r.outage("kafka paused", node.Pause, node.Resume, 4*time.Second, 8*time.Second)
		r.reached("paused")
	})
}

// starveKafka leaves fewer replicas in sync than the topic asks for.
func (r *run) starveKafka() {
	follower, over := r.kafka.cluster.Node(1), r.strike("too few replicas")
	follower.Stop()
	r.watchHeld(r.between(4*time.Second, 6*time.Second), "refused for want of replicas", "Not Enough Replicas")
	follower.Start()
	over()
}

const (
	smallTopic, missingTopic = "small", "later"
	smallLimit               = "10000"
	tooLarge                 = 20_000
)

func kafkaWithSmallTopic(r *run) string {
	sinks := kafkaSinks(r)
	r.kafka.topic(smallTopic)
	return sinks
}

// someImpossible sends a part to a topic that takes small records, of which some
// are too large, and a part to a topic that is not there.
func (r *run) someImpossible(p *plan) {
	r.plain(p)
	switch p.dice.IntN(12) {
	case 0:
		p.message.Topic = missingTopic
	case 1:
		p.message.Topic = smallTopic
	case 2:
		p.message.Topic, p.mortal = smallTopic, true
		p.message.Body = strings.Repeat("x", tooLarge+p.dice.IntN(tooLarge))
	}
}

func (r *run) refuseSome() {
	over := r.strikeClean("limit lowered")
	time.Sleep(2 * time.Second)
	r.kafka.set(smallTopic, "max.message.bytes", smallLimit)
	from := time.Now()
	r.watchHeld(span, "held for want of a topic", "Unknown Topic Or Partition")
	r.checkInTime(from, time.Now().Add(-inTime), func(e entry) bool { return e.Topic != missingTopic })
	over()
	over = r.strikeClean("no topic")
	r.kafka.topic(missingTopic)
	over()
}
