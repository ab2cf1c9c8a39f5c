//go:build unix

package kafkasource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// rig is a Kafka with topics of its own, and a store that tells what is parked.
type rig struct {
	*servers.KafkaCluster
	t      testing.TB
	client *kafka.Client
	store  *sourcetest.Store
	name   string
}

var rigs atomic.Int64

func newRig(t testing.TB) *rig { return rigOf(t, servers.SharedKafka(t)) }

func rigOf(t testing.TB, cluster *servers.KafkaCluster) *rig {
	t.Helper()
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	r := &rig{KafkaCluster: cluster, t: t, store: sourcetest.NewStore(),
		client: &kafka.Client{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport, Timeout: 20 * time.Second},
		name:   fmt.Sprintf("t%d-%d", time.Now().UnixMilli(), rigs.Add(1))}
	return r
}

// topic makes a topic whose name ends in suffix.
func (r *rig) topic(suffix string, partitions int, config ...string) string {
	r.t.Helper()
	name := r.name + suffix
	r.CreateTopic(name, partitions, config...)
	return name
}

// source makes a source that reads from topics and parks for "out" and the
// topic "orders", unless more says otherwise.
func (r *rig) source(topics []string, more map[string]any) *Source {
	r.t.Helper()
	made, err := New("src", r.config(topics, more), r.interceptor(), r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// config has timeouts that a machine which stands still keeps: what they cut off
// is done again, or by another member.
func (r *rig) config(topics []string, more map[string]any) json.RawMessage {
	r.t.Helper()
	c := map[string]any{"brokers": r.Addrs(), "topics": topics, "group": r.name, "sink": "out", "topic": "orders",
		"session_timeout": "30s", "dial_timeout": "5s", "request_timeout": "10s"}
	for name, value := range more {
		c[name] = value
	}
	if c["reject_topic"] == nil && c["on_bad_record"] == nil {
		c["on_bad_record"] = "stop"
	}
	raw, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return raw
}

// hasty adds timeouts for tests that wait until they have run out.
func hasty(more map[string]any) map[string]any {
	c := map[string]any{"session_timeout": "6s", "dial_timeout": "1s", "request_timeout": "2s"}
	maps.Copy(c, more)
	return c
}

func (r *rig) interceptor() *core.Interceptor {
	return core.NewBridge(r.store, core.Options{}, &core.Dispatcher{Name: "out"}, &core.Dispatcher{Name: "other"}).Interceptor
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.t.Output(), nil))
}

// running is a source at work.
type running struct {
	*Source
	*sourcetest.Running
}

func (r *rig) run(i *Source) *running { return &running{i, sourcetest.Start(r.t, i.Run)} }

func (r *rig) produce(topic string, partition int, records ...kafka.Record) {
	r.t.Helper()
	r.produceBatch(topic, partition, 0, records...)
}

func (r *rig) produceBatch(topic string, partition int, compression kafka.Compression, records ...kafka.Record) {
	r.t.Helper()
	again := r.repeatable(records)
	for tries := 0; ; tries++ {
		answer, err := r.client.Produce(context.Background(), &kafka.ProduceRequest{Topic: topic, Partition: partition,
			RequiredAcks: kafka.RequireAll, Compression: compression, Records: kafka.NewRecordReader(again()...)})
		if err == nil {
			err = answer.Error
		}
		if err == nil {
			return
		}
		if tries == 50 {
			r.t.Fatalf("produce: %v", err)
		}
		time.Sleep(100 * time.Millisecond) // the test's client may not know the topic yet
	}
}

// repeatable returns records that can be sent more than once: a try reads keys and
// values to their ends.
func (r *rig) repeatable(records []kafka.Record) func() []kafka.Record {
	r.t.Helper()
	read := func(b kafka.Bytes) func() kafka.Bytes {
		data, err := kafka.ReadAll(b)
		if err != nil {
			r.t.Fatal(err)
		}
		return func() kafka.Bytes { return kafka.NewBytes(data) }
	}
	keys, values := make([]func() kafka.Bytes, len(records)), make([]func() kafka.Bytes, len(records))
	for n, record := range records {
		keys[n], values[n] = read(record.Key), read(record.Value)
	}
	return func() []kafka.Record {
		all := slices.Clone(records)
		for n := range all {
			all[n].Key, all[n].Value = keys[n](), values[n]()
		}
		return all
	}
}

// text makes a record of texts; headers are name and value in turn.
func text(key, value string, headers ...string) kafka.Record {
	r := kafka.Record{Key: kafka.NewBytes([]byte(key)), Value: kafka.NewBytes([]byte(value))}
	for n := 0; n < len(headers); n += 2 {
		r.Headers = append(r.Headers, kafka.Header{Key: headers[n], Value: []byte(headers[n+1])})
	}
	return r
}

// found is a record as it lies in a topic.
type found struct {
	key, value []byte
	headers    []core.Header
}

func (f *found) header(name string) string {
	for _, h := range f.headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return "(none)"
}

// read returns the first want records of partition 0.
func (r *rig) read(topic string, want int) []found {
	r.t.Helper()
	var all []found
	deadline := time.Now().Add(60 * time.Second)
	for offset := int64(0); len(all) < want; {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d records in %s, want %d", len(all), topic, want)
		}
		fetched, err := r.client.Fetch(context.Background(), &kafka.FetchRequest{Topic: topic, Offset: offset, MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 100 * time.Millisecond})
		if err != nil || fetched.Error != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for {
			record, err := fetched.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				r.t.Fatal(err)
			}
			all, offset = append(all, asFound(record)), record.Offset+1
		}
	}
	return all
}

func asFound(record *protocol.Record) found {
	var f found
	if record.Key != nil {
		f.key, _ = protocol.ReadAll(record.Key)
	}
	if record.Value != nil {
		f.value, _ = protocol.ReadAll(record.Value)
	}
	for _, h := range record.Headers {
		f.headers = append(f.headers, core.Header{Name: h.Key, Value: h.Value})
	}
	return f
}
