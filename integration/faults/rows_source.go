//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
)

const (
	sourceTopic  = "orders.delayed"
	sourceSuffix = ".delayed"
	sourceGroup  = "faults"
)

// sourceRows are troubles of bridges that read from Kafka. What Kafka has
// acknowledged counts as accepted.
func sourceRows() []*row {
	return []*row{{number: 37, name: "source in trouble", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaSource,
		shape: (*run).asRecord, enter: (*run).produce, nemesis: (*run).troubleSource,
		fault:    "bridges that read a topic of Kafka leave and join, and are killed with -9 anywhere, before a park, and between park and commit, in the order of the seed",
		expected: "each record is parked once; a target that is the source is refused at start", drainIn: 30 * time.Second,
		needs: map[string]int{"restarted": 2, "killed": 1, "failpoint": 2, "loop refused": 1}}}
}

// kafkaSource has the bridges read from a Kafka, and deliver to the console.
func kafkaSource(r *run) string {
	r.kafka = r.startKafka(1)
	r.kafka.cluster.CreateTopic(sourceTopic, 2*kafkaPartitions)
	r.more = r.kafka.sources(sourceSuffix)
	return consoleSinks
}

func (k *kafkaTarget) sources(suffix string) string {
	return fmt.Sprintf(`sources:
  in: {type: kafka, config: {brokers: [%q], topics: [%s], group: %s, sink: out, topic: "{topic}", trim_suffix: %q, on_bad_record: stop, session_timeout: 6s}}
`, k.cluster.Addrs()[0], sourceTopic, sourceGroup, suffix)
}

// asRecord has a message go through Kafka. Its ID is its position there, which
// its producer does not know, so there are no calls by id.
func (r *run) asRecord(p *plan) {
	p.generated, p.again, p.other, p.steps = true, false, false, nil
	p.message.ID = ""
}

// produce writes a message as a record, once. It is refused if there is no topic.
func (r *run) produce(p plan) entry { return r.produceTo(sourceTopic, p) }

func (r *run) produceTo(topic string, p plan) entry {
	e := entry{Kind: accepting, Name: p.name, Content: p.message.content(), Outcome: done, Call: time.Now()}
	e.Least = e.Call.Add(p.delay)
	record := kafka.Record{Value: kafka.NewBytes([]byte(p.message.Body))}
	if p.message.Key != nil {
		record.Key = kafka.NewBytes([]byte(*p.message.Key))
	}
	for _, h := range p.message.Headers {
		record.Headers = append(record.Headers, kafka.Header{Key: h.Name, Value: []byte(*h.Value)})
	}
	record.Headers = append(record.Headers, kafka.Header{Key: core.HeaderPrefix + "delay", Value: []byte(p.message.Delay)})
	switch _, err := r.kafka.write(topic, p.dice.IntN(2*kafkaPartitions), record); {
	case errors.Is(err, kafka.UnknownTopicOrPartition), errors.Is(err, protocol.ErrNoTopic):
		e.Outcome, e.Code = refused, "no topic"
	case err != nil:
		e.Outcome, e.Code = unknown, err.Error()
	}
	e.Return = time.Now()
	return e
}

// write returns when Kafka has a record, and its offset.
func (k *kafkaTarget) write(topic string, partition int, record kafka.Record) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*callTimeout)
	defer cancel()
	answer, err := k.client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(record)})
	if err != nil {
		return 0, err
	}
	return answer.BaseOffset, answer.Error
}

func (r *run) troubleSource() {
	r.refuseLoop()
	other, victim := r.bridges[0], r.bridges[1]
	fail := func(point string) func() {
		return func() { r.failAtWithin(victim, fmt.Sprintf("park.%s:%d:kill", point, 1+r.dice.IntN(10)), joinedIn) }
	}
	leave := func() {
		r.restart(other, "")
		time.Sleep(r.between(0, 2*time.Second))
	}
	r.shuffled(fail("before"), fail("after"), fail("after"), leave, leave, func() {
		r.crash(other)
		time.Sleep(r.between(0, 3*time.Second))
		other.start("")
		r.reached("killed")
	})
}

// joinedIn is how long it may take until a bridge gets something to read: the group
// waits for those that were killed.
const joinedIn = 15 * time.Second

const refusedIn = 20 * time.Second

// refuseLoop finds whether a bridge starts whose source would read what its sink
// has written.
func (r *run) refuseLoop() {
	file := filepath.Join(r.Dir(), "loop.yaml")
	text := strings.Replace(r.configuration(r.redis.yaml, ""), r.more, r.kafka.sources(""), 1)
	r.harmIf(os.WriteFile(file, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), refusedIn)
	defer cancel()
	said, err := exec.CommandContext(ctx, r.binary, "serve", "--config", file).CombinedOutput()
	_, ended := errors.AsType[*exec.ExitError](err)
	if !ended || ctx.Err() != nil || !strings.Contains(string(said), "allow_loop") {
		r.find("L10", "a loop was not refused: %v\n%s", err, said)
		return
	}
	r.reached("loop refused")
}
