//go:build unix

package kafkasource

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// BenchmarkPark is how quickly records that lie in Kafka are parked in memory:
// 200 bytes, a key, two headers and a delay. Run it with -benchtime 300000x.
func BenchmarkPark(b *testing.B) {
	for _, partitions := range []int{1, 4} {
		for _, compression := range []kafka.Compression{0, kafka.Lz4} {
			for name, store := range map[string]core.Store{"memstore": memstore.New(memstore.Config{}), "nowhere": sourcetest.Nowhere{}} {
				b.Run(fmt.Sprintf("%d-%s-%s", partitions, compression, name), func(b *testing.B) { benchPark(b, partitions, compression, store) })
			}
		}
	}
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
	src, err := New("src", r.config([]string{topic}, nil), core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
	if err != nil {
		b.Fatal(err)
	}
	sourcetest.Bench(b, src.Run, func() uint64 { return src.Report().Parked })
}
