//go:build unix

package rocketmqsource

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// BenchmarkPark is how quickly messages that lie in RocketMQ are parked in
// memory: 200 bytes, a key, two properties and a delay. Run it with
// -benchtime 200000x.
func BenchmarkPark(b *testing.B) {
	for _, queues := range []int{1, 4} {
		for name, store := range map[string]core.Store{"memstore": newMemstore(), "nowhere": nowhere{}} {
			b.Run(fmt.Sprintf("%d-%s", queues, name), func(b *testing.B) { benchPark(b, queues, store) })
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
