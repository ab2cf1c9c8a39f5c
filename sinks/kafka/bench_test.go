//go:build unix

package kafka

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const (
	benchSenders    = 16
	benchBatch      = 500
	benchPartitions = 4
)

// BenchmarkDeliver is what sixteen buckets reach with full batches: 200 bytes, a
// key and two headers, acknowledged by all.
func BenchmarkDeliver(b *testing.B) {
	c := startCluster(b, servers.KafkaOptions{})
	topic := c.topic(benchPartitions)
	sink := openTest(b, c.Addrs(), nil, nil)
	defer sink.Close()
	batches := make([][]*core.Message, benchSenders)
	for n := range batches {
		for i := range benchBatch {
			batches[n] = append(batches[n], &core.Message{ID: "0123456789abcdefghijklm", Topic: topic, Attempt: 1, DeliverAt: time.Now(),
				Key: strconv.AppendInt(nil, int64(n*benchBatch+i), 10), Body: bytes.Repeat([]byte("b"), 200),
				Headers: []core.Header{{Name: "content-type", Value: []byte("text/plain")}, {Name: "trace", Value: []byte("0123456789")}}})
		}
	}
	benchShared(b, func(n int) error { return sink.Deliver(context.Background(), batches[n]) })
}

// BenchmarkRaw is the client library at its best, for comparison: a goroutine
// for each partition, a thousand records a request.
func BenchmarkRaw(b *testing.B) {
	c := startCluster(b, servers.KafkaOptions{})
	topic := c.topic(benchPartitions)
	headers := []kafka.Header{{Key: "content-type", Value: []byte("text/plain")}, {Key: "trace", Value: []byte("0123456789")},
		{Key: core.HeaderID, Value: []byte("0123456789abcdefghijklm")}, {Key: core.HeaderAttempt, Value: []byte("1")}, {Key: core.HeaderDeliverAt, Value: []byte(core.TimeFormat)}}
	key, body := []byte("1234"), bytes.Repeat([]byte("b"), 200)
	benchShared(b, func(n int) error {
		records := make([]kafka.Record, benchBatch)
		for i := range records {
			records[i] = kafka.Record{Key: kafka.NewBytes(key), Value: kafka.NewBytes(body), Headers: headers}
		}
		_, err := c.client.Produce(context.Background(), &kafka.ProduceRequest{Topic: topic, Partition: n % benchPartitions,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
		return err
	})
}

// BenchmarkLone is the time that one message takes on its own.
func BenchmarkLone(b *testing.B) {
	c := startCluster(b, servers.KafkaOptions{})
	sink := openTest(b, c.Addrs(), nil, nil)
	defer sink.Close()
	batch := messages(c.topic(1), "lone")
	for b.Loop() {
		if err := sink.Deliver(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// benchShared has the senders share b.N batches, and reports messages a second.
func benchShared(b *testing.B, send func(sender int) error) {
	if err := send(0); err != nil { // connects
		b.Fatal(err)
	}
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	var group sync.WaitGroup
	for n := range benchSenders {
		group.Go(func() {
			for range left {
				if err := send(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "messages/s")
}
