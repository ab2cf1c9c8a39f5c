//go:build unix

package amqpsource

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// BenchmarkPark is how quickly messages that lie in RabbitMQ are parked in
// memory: 200 bytes, two headers and a delay. Run it with -benchtime 50000x.
func BenchmarkPark(b *testing.B) {
	for _, queues := range []int{1, 2} {
		for _, one := range []struct {
			name  string
			store core.Store
		}{{"memstore", memstore.New(memstore.Config{})}, {"nowhere", sourcetest.Nowhere{}}} {
			b.Run(fmt.Sprintf("%d-%s", queues, one.name), func(b *testing.B) { benchPark(b, queues, one.store) })
		}
	}
}

// fill publishes n messages, spread over queues.
func (r *rig) fill(n int, queues []string) {
	r.t.Helper()
	body := bytes.Repeat([]byte("0123456789"), 20)
	const batch = 1000
	for done := 0; done < n; done += batch {
		messages := make([]amqp091.Publishing, min(batch, n-done))
		for i := range messages {
			messages[i] = delayed(strconv.Itoa(done+i), string(body), "content", "text/plain", "trace", "0123456789", "x-delay", int32(3_600_000))
		}
		r.publish(queues[done/batch%len(queues)], messages...)
	}
}

func benchPark(b *testing.B, count int, store core.Store) {
	r := newRig(b)
	var queues []string
	for n := range count {
		queues = append(queues, r.queue(strconv.Itoa(n), nil))
	}
	r.fill(b.N, queues)
	src, err := New("src", r.config(map[string]any{"queues": queues}), core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
	if err != nil {
		b.Fatal(err)
	}
	sourcetest.Bench(b, src.Run, func() uint64 { return src.Report().Parked })
}

// BenchmarkRaw is what the client library reaches by itself: it reads and
// acknowledges, every 500 at once.
func BenchmarkRaw(b *testing.B) {
	r := newRig(b)
	queue := r.queue("raw", nil)
	r.fill(b.N, []string{queue})
	channel := r.open(r.URL())
	if err := channel.Qos(1000, 0, false); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	cpu := sourcetest.CPUTime()
	for n := 1; n <= b.N; n++ {
		d := <-deliveries
		if n%maxBatch == 0 || n == b.N {
			if err := d.Ack(true); err != nil {
				b.Fatal(err)
			}
		}
	}
	sourcetest.Report(b, b.Elapsed(), sourcetest.CPUTime()-cpu)
}
