//go:build unix

package rocketmqsource

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// BenchmarkPark is how quickly messages that lie in RocketMQ are parked in
// memory: 200 bytes, a key, two properties and a delay. Run it with
// -benchtime 200000x.
func BenchmarkPark(b *testing.B) {
	for _, queues := range []int{1, 4} {
		for name, store := range map[string]core.Store{"memstore": memstore.New(memstore.Config{}), "nowhere": sourcetest.Nowhere{}} {
			b.Run(fmt.Sprintf("%d-%s", queues, name), func(b *testing.B) { benchPark(b, queues, store) })
		}
	}
}

func benchPark(b *testing.B, queues int, store core.Store) {
	r := newRig(b)
	topic := r.topic("-delayed", queues)
	body := strings.Repeat("0123456789", 20)
	const batch = 1000
	for done := 0; done < b.N; done += batch {
		messages := make([]one, min(batch, b.N-done))
		for n := range messages {
			messages[n] = one{body, props("content-type", "text/plain", "trace", "0123456789", "__SHARDINGKEY", strconv.Itoa(done+n), "delaybridge-delay", "1h")}
		}
		r.sendBatch(topic, done/batch%queues, messages...)
	}
	src, err := New("src", r.config([]string{topic}, nil), core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
	if err != nil {
		b.Fatal(err)
	}
	sourcetest.Bench(b, src.Run, func() uint64 { return src.Report().Parked })
}
