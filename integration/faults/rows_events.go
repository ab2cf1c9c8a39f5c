//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// eventRows have events sent to a Kafka.
func eventRows() []*row {
	return []*row{{number: 62, name: "killed while events are sent", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaForEvents,
		shape: (*run).asBurstOfHTTP, nemesis: (*run).killInBursts, after: (*run).checkEvents, rate: 300,
		fault:    "in the middle of bursts, and between Kafka's confirmation of events and their removal, bridges are killed with -9, and Kafka stands still for 3 s",
		expected: "each message that is delivered, cancelled or discarded has its final event, and there is no other", drainIn: 30 * time.Second, perFault: 100,
		needs: map[string]int{"killed": 3, "failpoint": 2, "Kafka paused": 1, "cancelled": 10}}}
}

const eventTopic = "told"

// kafkaForEvents is a Kafka besides the console sink.
func kafkaForEvents(r *run) string {
	r.kafka = r.startKafka(1)
	r.kafka.cluster.CreateTopic(eventTopic, kafkaPartitions)
	r.more = fmt.Sprintf("events: {sink: kafka, topic: %s}\n", eventTopic)
	return consoleSinks + strings.Replace("\n  "+r.kafka.sinks(), "out:", "kafka:", 1)
}

// asBurstOfHTTP has messages fall due together.
func (r *run) asBurstOfHTTP(p *plan) {
	p.message.Sink = "out"
	p.delay = time.Until(time.Now().Add(burstEvery).Truncate(burstEvery)).Truncate(time.Millisecond)
	p.message.Delay = fmt.Sprintf("%dms", p.delay.Milliseconds())
}

// killInBursts kills bridges in turn, in the order of the seed, each in a burst.
func (r *run) killInBursts() {
	pause := func(*bridge) {
		over := r.strikeClean("Kafka paused")
		r.kafka.cluster.Node(0).Pause()
		time.Sleep(3 * time.Second)
		r.kafka.cluster.Node(0).Resume()
		over()
		r.reached("Kafka paused")
	}
	kill := func(b *bridge) {
		r.crash(b)
		r.reached("killed")
		b.start("")
	}
	at := func(point string) func(*bridge) {
		return func(b *bridge) { r.failAt(b, fmt.Sprintf("%s:%d:kill", point, 1+r.dice.IntN(6))) }
	}
	steps := []func(*bridge){kill, kill, kill, pause, at("deliver.after"), at("deliver.after"), at("deliver.before"), at("settle.after")}
	r.dice.Shuffle(len(steps), func(a, b int) { steps[a], steps[b] = steps[b], steps[a] })
	for n, step := range steps {
		time.Sleep(time.Until(time.Now().Add(burstEvery).Truncate(burstEvery)) + r.between(0, inBurst))
		step(r.bridges[n%len(r.bridges)])
	}
}

// toldIn is within which events are sent when all is over: others than the owner may have
// cancelled.
const toldIn = 30 * time.Second

// checkEvents compares the final events with what has become of the messages.
func (r *run) checkEvents() {
	var missing []string
	told := map[string]map[string]int{}
	if !poll.Holds(toldIn, func() bool {
		r.harmIf(r.kafka.readEvents(told))
		missing = r.untold(told)
		return len(missing) == 0
	}) {
		r.find("L1", "%d final events are missing, such as %s", len(missing), missing[0])
	}
	arrived := map[string]bool{}
	for _, a := range r.ledger.accounts() {
		for _, e := range a.arrivals {
			arrived[e.ID] = true
		}
	}
	for id, events := range told {
		if events["delivered"] > 0 && !arrived[id] {
			r.find("L2", "%s is told to be delivered, and has not arrived", id)
		}
	}
}

// untold returns the final events that are not there.
func (r *run) untold(told map[string]map[string]int) (missing []string) {
	for _, a := range r.ledger.accounts() {
		id, cancelled := a.id(), a.any(cancelling, done)
		if len(a.arrivals) > 0 {
			id = a.arrivals[0].ID
		}
		switch events := told[id]; {
		case cancelled && events["cancelled"] == 0:
			missing = append(missing, "cancelled of "+id)
		case !cancelled && len(a.arrivals) > 0 && events["delivered"] == 0:
			missing = append(missing, "delivered of "+id)
		}
	}
	return missing
}

// readEvents counts the events that are in the topic, by message.
func (k *kafkaTarget) readEvents(told map[string]map[string]int) error {
	clear(told)
	for partition := range kafkaPartitions {
		end, err := k.end(eventTopic, partition)
		if err != nil {
			return err
		}
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: k.cluster.Addrs(), Topic: eventTopic, Partition: partition, MinBytes: 1, MaxBytes: 8 << 20, MaxWait: kafkaPoll})
		for next := int64(0); next < end; next++ {
			var e struct{ Event, ID string }
			m, err := reader.ReadMessage(context.Background())
			if err == nil {
				err = json.Unmarshal(m.Value, &e)
			}
			if err != nil {
				return errors.Join(err, reader.Close())
			}
			if told[e.ID] == nil {
				told[e.ID] = map[string]int{}
			}
			told[e.ID][e.Event]++
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}
