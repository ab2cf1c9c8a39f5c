package metrics

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// The benchmarks are for 500 messages: one call of Accept, and one batch.

func benchMessages() ([]*core.Message, []core.Receipt, []core.Outcome) {
	messages, receipts, outcomes := make([]*core.Message, 500), make([]core.Receipt, 500), make([]core.Outcome, 500)
	now := time.Now()
	for n := range messages {
		id := fmt.Sprintf("%023d", n)
		messages[n] = &core.Message{ID: id, Sink: "orders", Topic: "t", Attempt: 1, DeliverAt: now.Add(time.Duration(n-1000) * time.Millisecond),
			Headers: []core.Header{{Name: "content-type"}, {Name: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")}}}
		receipts[n] = core.Receipt{ID: id, Sink: "orders", Durability: "memory"}
		outcomes[n] = core.Outcome{ID: id, State: core.Delivered}
	}
	return messages, receipts, outcomes
}

func BenchmarkAccepted(b *testing.B) {
	messages, receipts, _ := benchMessages()
	now, o := time.Now(), New(Config{Topics: map[string][]string{"orders": nil}}).Observer()
	b.ReportAllocs()
	for b.Loop() {
		o.Accepted(context.Background(), core.Acceptance{Input: "http", Messages: messages, Receipts: receipts, Began: now, Ended: now.Add(time.Millisecond)})
	}
}

func BenchmarkDelivered(b *testing.B) {
	messages, _, outcomes := benchMessages()
	now, o := time.Now(), New(Config{Topics: map[string][]string{"orders": nil}}).Observer()
	b.ReportAllocs()
	for b.Loop() {
		o.Delivered(core.Delivery{Sink: "orders", Batch: core.Batch{Messages: messages, Now: now, Local: now}, Outcomes: outcomes,
			Asked: now, Taken: now, Called: now, Returned: now.Add(time.Millisecond), Settled: now.Add(2 * time.Millisecond)})
	}
}

// BenchmarkScrape is of 50 sinks that all have deliveries, without the store.
func BenchmarkScrape(b *testing.B) {
	m := New(Config{})
	messages, receipts, outcomes := benchMessages()
	now, o := time.Now(), m.Observer()
	for n := range 50 {
		sink := fmt.Sprint("sink-", n)
		for i := range receipts {
			receipts[i].Sink = sink
		}
		o.Accepted(context.Background(), core.Acceptance{Input: "http", Messages: messages, Receipts: receipts, Began: now, Ended: now})
		o.Delivered(core.Delivery{Sink: sink, Batch: core.Batch{Messages: messages, Now: now, Local: now}, Outcomes: outcomes,
			Asked: now, Taken: now, Called: now, Returned: now.Add(time.Millisecond), Settled: now.Add(2 * time.Millisecond)})
	}
	for _, accept := range []string{"text/plain", "application/openmetrics-text", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		b.Run(accept, func(b *testing.B) {
			for b.Loop() {
				scrapeAs(b, m, accept)
			}
		})
	}
}

// endless is a store and a bucket that do nothing, and always have the same batch due.
type endless struct {
	core.Store
	core.Bucket
	receipts []core.Receipt
	batch    core.Batch
	left     int // batches
	end      context.CancelFunc
}

func (e *endless) Park(context.Context, ...*core.Message) []core.Receipt { return e.receipts }

func (e *endless) Take(context.Context, int) (core.Batch, error) {
	if e.left--; e.left == 0 {
		e.end()
	}
	return e.batch, nil
}

func (e *endless) Settle(context.Context, ...core.Outcome) error { return nil }
func (e *endless) String() string                                { return "orders:00" }

type silent struct{}

func (silent) Deliver(context.Context, []*core.Message) error { return nil }
func (silent) Close() error                                   { return nil }

// BenchmarkBridge is the engine alone, with metrics and without.
func BenchmarkBridge(b *testing.B) {
	for _, metrics := range []string{"off", "on"} {
		var options core.Options
		if metrics == "on" {
			options.Observer = New(Config{Topics: map[string][]string{"orders": nil}}).Observer()
		}
		messages, receipts, _ := benchMessages()
		store := &endless{receipts: receipts, batch: core.Batch{Messages: messages, Now: time.Now(), Local: time.Now()}}
		orders := &core.Dispatcher{Name: "orders", Sink: silent{}}
		bridge := core.NewBridge(store, options, orders)
		b.Run("accept/"+metrics, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range messages {
					m.DeliverAt, m.Delay = time.Time{}, time.Second
				}
				bridge.Accept(b.Context(), messages...)
			}
		})
		for n, m := range messages {
			m.DeliverAt, m.Delay = store.batch.Now.Add(time.Duration(n-1000)*time.Millisecond), 0
		}
		b.Run("deliver/"+metrics, func(b *testing.B) {
			b.ReportAllocs()
			ctx, end := context.WithCancel(b.Context())
			store.left, store.end = b.N, end
			if err := orders.Run(ctx, store); err != nil {
				b.Fatal(err)
			}
		})
	}
}
