package amqp

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

const benchBatch = core.MaxTake

func benchMessages(topic string, n int) []*core.Message {
	batch := make([]*core.Message, n)
	for i := range batch {
		batch[i] = message(topic, string(make([]byte, 200)))
		batch[i].Headers = []core.Header{{Name: "content-type", Value: []byte("application/json")}, {Name: "trace", Value: []byte("0123456789")}}
	}
	return batch
}

// BenchmarkDeliver sends messages of 200 bytes and two headers, each from as
// many callers as named, in batches as the engine makes them.
func BenchmarkDeliver(b *testing.B) {
	r := sharedRabbit(b)
	for _, callers := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openTest(b, nil, r.URL())
			closeAtEnd(b, s)
			queue := r.queue(b, nil)
			mustDeliver(b, s, message(queue, "first"))
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					batch := benchMessages(queue, benchBatch)
					for {
						n := min(benchBatch, left.Add(-benchBatch)+benchBatch)
						if n <= 0 {
							return
						}
						mustDeliver(b, s, batch[:n]...)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			b.StopTimer()
			r.drop(b, queue)
		})
	}
}

// BenchmarkRaw is what the client library reaches by itself: one channel,
// confirms, persistent, mandatory, with a deep window.
func BenchmarkRaw(b *testing.B) {
	r := sharedRabbit(b)
	const window = 2000
	queue, channel := r.queue(b, nil), r.channel(b)
	if err := channel.Confirm(false); err != nil {
		b.Fatal(err)
	}
	m := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: make([]byte, 200), MessageId: "01234567890123456789012",
		Headers: amqp091.Table{"content-type": "application/json", "trace": "0123456789"}}
	confirms := make(chan *amqp091.DeferredConfirmation, window)
	done := make(chan struct{})
	b.ResetTimer()
	go func() {
		defer close(done)
		for confirm := range confirms {
			if !confirm.Wait() {
				b.Error("not confirmed")
			}
		}
	}()
	for range b.N {
		confirm, err := channel.PublishWithDeferredConfirm("", queue, true, false, m)
		if err != nil {
			b.Fatal(err)
		}
		confirms <- confirm
	}
	close(confirms)
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.StopTimer()
	r.drop(b, queue)
}

// BenchmarkAlone is how long one message takes.
func BenchmarkAlone(b *testing.B) {
	r := sharedRabbit(b)
	s := openTest(b, nil, r.URL())
	closeAtEnd(b, s)
	queue := r.queue(b, nil)
	m := benchMessages(queue, 1)
	mustDeliver(b, s, m...)
	b.ResetTimer()
	for range b.N {
		mustDeliver(b, s, m...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(time.Millisecond/time.Microsecond), "ms/message")
}

// drop deletes a queue with what it holds, so that the next finds the broker as
// empty as the first.
func (r *rabbit) drop(b *testing.B, queue string) {
	b.Helper()
	if _, err := r.channel(b).QueueDelete(queue, false, false, false); err != nil {
		b.Error(err)
	}
}
