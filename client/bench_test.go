package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/client"
)

// One call of each benchmark is one message of 200 bytes, stored in memory by a
// listener in the same process.

func BenchmarkPublish(b *testing.B) {
	_, c := benchFixture(b)
	m := client.Message{Topic: "t", Body: make([]byte, 200), Delay: time.Hour}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Publish(context.Background(), m); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkPublishBatch(b *testing.B) {
	_, c := benchFixture(b)
	batch := messages(500, 200)
	for n := range batch {
		batch[n].ID = ""
	}
	for sent := 0; sent < b.N; sent += len(batch) {
		if _, err := c.PublishBatch(context.Background(), batch[:min(len(batch), b.N-sent)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublisher(b *testing.B) {
	_, c := benchFixture(b)
	p := c.NewPublisher()
	m := client.Message{Topic: "t", Body: make([]byte, 200), Delay: time.Hour}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.Publish(context.Background(), m)
		}
	})
	if err := p.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

func benchFixture(b *testing.B) (*listener, *client.Client) {
	b.Helper()
	d, c := fixture(b)
	d.store.off = true
	b.ReportAllocs()
	b.ResetTimer()
	return d, c
}
