package kafka

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/delaybridge/delaybridge/core"
)

// configFor is a configuration with timeouts that a busy machine keeps, as JSON.
func configFor(t testing.TB, addrs []string, more map[string]any) json.RawMessage {
	t.Helper()
	c := map[string]any{"brokers": addrs, "dial_timeout": "10s", "request_timeout": "10s"}
	for name, value := range more {
		c[name] = value
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// brisk are the timeouts for virtual time, and for a broker that stands still.
func brisk(more map[string]any) map[string]any {
	c := map[string]any{"dial_timeout": "1s", "request_timeout": "2s"}
	maps.Copy(c, more)
	return c
}

func openTest(t testing.TB, addrs []string, more map[string]any, dial func(context.Context, string, string) (net.Conn, error)) *Sink {
	t.Helper()
	s, err := decode(configFor(t, addrs, more))
	if err != nil {
		t.Fatal(err)
	}
	if dial != nil {
		s.DialContext = dial
	}
	return newSink(s)
}

// fakeCluster answers like Kafka brokers, over pipes, so that faults come at an
// exact moment and time can be virtual. Fields are set before its first use, or
// through set.
type fakeCluster struct {
	mu      sync.Mutex
	leaders map[string][]int // topic to the leader of each partition; 0 is none
	down    map[int]bool     // brokers that refuse connections
	brokers int

	// answer decides about the records of a partition; nil is that all is well.
	answer func(p fakeProduce) fakeAnswer
	// before is called with each produce request that was read, before it is
	// worked on. It returns false if the connection is to be cut.
	before func(broker int) bool
	// after is called before a produce request is answered; false cuts.
	after    func(broker int) bool
	throttle time.Duration

	log       map[string][]string // topic/partition to bodies, as stored
	dials     []string
	produces  int // requests
	questions int // metadata requests
	open, max int // connections
}

type fakeProduce struct {
	broker    int
	topic     string
	partition int
	bodies    []string
}

type fakeAnswer struct {
	code    kafka.Error
	written bool  // with an error: it came up after the records were written
	culprit []int // named by the broker
}

func newFake(brokers int) *fakeCluster {
	return &fakeCluster{brokers: brokers, leaders: map[string][]int{}, down: map[int]bool{}, log: map[string][]string{}}
}

func (f *fakeCluster) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func fakeAddress(broker int) string { return fmt.Sprintf("broker%d:9092", broker) }

// open returns a sink on the fake, to be closed by the caller.
func (f *fakeCluster) openSink(t testing.TB, more map[string]any) *Sink {
	t.Helper()
	var addrs []string
	for n := range f.brokers {
		addrs = append(addrs, fakeAddress(n+1))
	}
	return openTest(t, addrs, brisk(more), f.dial)
}

func (f *fakeCluster) dial(_ context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, address)
	host, _, _ := strings.Cut(strings.TrimPrefix(address, "broker"), ":")
	broker, err := strconv.Atoi(host)
	if err != nil || f.down[broker] {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	f.open++
	f.max = max(f.max, f.open)
	go f.serve(broker, far)
	return near, nil
}

func (f *fakeCluster) serve(broker int, conn net.Conn) {
	defer f.set(func() { f.open-- })
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		version, id, _, request, err := protocol.ReadRequest(in)
		if err != nil {
			return
		}
		answer := f.respond(broker, request)
		if answer == nil || protocol.WriteResponse(conn, version, id, answer) != nil {
			return
		}
	}
}

func (f *fakeCluster) respond(broker int, request protocol.Message) protocol.Message {
	switch request := request.(type) {
	case *apiversions.Request:
		return &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{
			{ApiKey: int16(protocol.Produce), MaxVersion: 8}, {ApiKey: int16(protocol.Metadata), MaxVersion: 8},
			{ApiKey: int16(protocol.ApiVersions), MaxVersion: 2}}}
	case *metadata.Request:
		return f.describe(request)
	case *produce.Request:
		if f.before != nil && !f.before(broker) {
			return nil
		}
		answer := f.store(broker, request)
		if f.after != nil && !f.after(broker) {
			return nil
		}
		return answer
	}
	return nil
}

func (f *fakeCluster) describe(request *metadata.Request) *metadata.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions++
	answer := &metadata.Response{}
	for n := range f.brokers {
		answer.Brokers = append(answer.Brokers, metadata.ResponseBroker{NodeID: int32(n + 1), Host: "broker" + strconv.Itoa(n+1), Port: 9092})
	}
	for _, name := range request.TopicNames {
		t := metadata.ResponseTopic{Name: name}
		if _, ok := f.leaders[name]; !ok {
			t.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		}
		for n, leader := range f.leaders[name] {
			p := metadata.ResponsePartition{PartitionIndex: int32(n), LeaderID: int32(leader)}
			if leader == 0 {
				p.LeaderID, p.ErrorCode = -1, int16(kafka.LeaderNotAvailable)
			}
			t.Partitions = append(t.Partitions, p)
		}
		answer.Topics = append(answer.Topics, t)
	}
	return answer
}

func (f *fakeCluster) store(broker int, request *produce.Request) *produce.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.produces++
	response := &produce.Response{ThrottleTimeMs: int32(f.throttle.Milliseconds())}
	for _, t := range request.Topics {
		answer := produce.ResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			one := fakeProduce{broker: broker, topic: t.Topic, partition: int(p.Partition), bodies: bodiesOf(p.RecordSet)}
			answer.Partitions = append(answer.Partitions, f.storeOne(one))
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

func (f *fakeCluster) storeOne(p fakeProduce) produce.ResponsePartition {
	answer := fakeAnswer{}
	switch leaders := f.leaders[p.topic]; {
	case p.partition >= len(leaders):
		answer.code = kafka.UnknownTopicOrPartition
	case leaders[p.partition] != p.broker:
		answer.code = kafka.NotLeaderForPartition
	case f.answer != nil:
		answer = f.answer(p)
	}
	if answer.code == 0 || answer.written {
		name := fmt.Sprintf("%s/%d", p.topic, p.partition)
		f.log[name] = append(f.log[name], p.bodies...)
	}
	response := produce.ResponsePartition{Partition: int32(p.partition), ErrorCode: int16(answer.code)}
	if answer.code != 0 && !answer.written {
		response.BaseOffset = -1
	}
	for _, n := range answer.culprit {
		response.RecordErrors = append(response.RecordErrors, produce.ResponseError{BatchIndex: int32(n), BatchIndexErrorMessage: "named by the broker"})
	}
	return response
}

func bodiesOf(set protocol.RecordSet) []string {
	var bodies []string
	for {
		r, err := set.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return bodies
		}
		body, _ := protocol.ReadAll(r.Value)
		bodies = append(bodies, string(body))
	}
}

// stored returns the bodies in one partition.
func (f *fakeCluster) stored(topic string, partition int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log[fmt.Sprintf("%s/%d", topic, partition)])
}

// messages makes messages for partition 0 of topic with these bodies.
func messages(topic string, bodies ...string) []*core.Message {
	batch := make([]*core.Message, len(bodies))
	for n, body := range bodies {
		batch[n] = &core.Message{ID: fmt.Sprintf("%s-%d", body, n), Topic: topic, Body: []byte(body), Attempt: 1,
			DeliverAt: time.Now(), Options: map[string]string{"partition": "0"}}
	}
	return batch
}

func numbered(n int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = "body " + strconv.Itoa(i)
	}
	return bodies
}

// each returns the class of each message as the engine sees it; -1 is confirmed.
func each(n int, err error) []core.Class {
	classes := make([]core.Class, n)
	results, ok := errors.AsType[core.BatchError](err)
	for i := range classes {
		switch {
		case err == nil || ok && results[i] == nil:
			classes[i] = -1
		case ok:
			classes[i] = core.ClassOf(results[i])
		default:
			classes[i] = core.ClassOf(err)
		}
	}
	return classes
}

const wellDone core.Class = -1

func isWhole(err error) bool {
	_, each := errors.AsType[core.BatchError](err)
	return err != nil && !each
}
