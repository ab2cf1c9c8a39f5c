//go:build unix

package kafkasource

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// BenchmarkPark is how quickly records that lie in Kafka are parked in memory:
// 200 bytes, a key, two headers and a delay. Run it with -benchtime 300000x.
func BenchmarkPark(b *testing.B) {
	for _, partitions := range []int{1, 4} {
		for _, compression := range []kafka.Compression{0, kafka.Lz4} {
			for name, store := range map[string]core.Store{"memstore": memstore.New(memstore.Config{}), "nowhere": nowhere{}} {
				b.Run(fmt.Sprintf("%d-%s-%s", partitions, compression, name), func(b *testing.B) { benchPark(b, partitions, compression, store) })
			}
		}
	}
}

// nowhere accepts all and keeps nothing.
type nowhere struct{ core.Store }

func (nowhere) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink}
	}
	return receipts
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchPark(b *testing.B, partitions int, compression kafka.Compression, store core.Store) {
	r := newRig(b)
	topic := r.topic(".delayed", partitions)
	body := bytes.Repeat([]byte("0123456789"), 20)
	const batch = 1000
	for done := 0; done < b.N; done += batch {
		records := make([]kafka.Record, min(batch, b.N-done))
		for n := range records {
			records[n] = kafka.Record{Key: kafka.NewBytes(strconv.AppendInt(nil, int64(done+n), 10)), Value: kafka.NewBytes(body),
				Headers: []kafka.Header{{Key: "content-type", Value: []byte("text/plain")}, {Key: "trace", Value: []byte("0123456789")},
					{Key: "delaybridge-delay", Value: []byte("1h")}}}
		}
		r.produceBatch(topic, done/batch%partitions, compression, records...)
	}
	src, err := New("src", r.config([]string{topic}, nil), core.NewInterceptor(store, core.Limits{}, &core.Dispatcher{Name: "out"}), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	running := r.run(src)
	var first time.Time
	var cpu time.Duration
	for done := uint64(0); done < uint64(b.N); time.Sleep(time.Millisecond) {
		done = src.Report().Parked
		if first.IsZero() && done > 0 {
			first, cpu = time.Now(), cpuTime() // joining the group is not what is measured
		}
	}
	b.ReportMetric(float64(b.N)/time.Since(first).Seconds(), "messages/s")
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N)/1000, "cpu-µs/message")
	b.StopTimer()
	if err := running.stop(); err != nil {
		b.Error(err)
	}
}
