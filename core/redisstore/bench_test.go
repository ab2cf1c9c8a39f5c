package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// The benchmarks here report the processor time of Redis, not how long the test waits:
// for each message (redis-µs/msg, the tenth percentile of all rounds), or for each call
// (redis-µs/op).

func BenchmarkTakeAndSettle(b *testing.B) {
	for _, size := range []int{1, 500} {
		for _, state := range []core.State{core.Delivered, core.Retrying, core.Dead} {
			b.Run(fmt.Sprintf("%s/%d", state, size), func(b *testing.B) { benchSettle(b, state, size) })
		}
	}
}

func benchSettle(b *testing.B, state core.State, size int) {
	s := openBench(b, 1)
	owned := ownBench(b, s)
	var spent []float64
	for b.Loop() {
		parkNow(b, s, size)
		before := redisTime(b, s)
		batch, err := owned.Take(b.Context(), size)
		if err != nil || len(batch.Messages) != size {
			b.Fatalf("took %d of %d, %v", len(batch.Messages), size, err)
		}
		outcomes := make([]core.Outcome, size)
		for n, m := range batch.Messages {
			outcomes[n] = core.Outcome{ID: m.ID, State: state, Attempts: 1, After: time.Hour, Reason: "retry", Error: "try later"}
		}
		if err := owned.Settle(b.Context(), outcomes...); err != nil {
			b.Fatal(err)
		}
		spent = append(spent, redisTime(b, s)-before)
	}
	slices.Sort(spent)
	b.ReportMetric(spent[len(spent)/10]*1e6/float64(size), "redis-µs/msg")
}

func BenchmarkList(b *testing.B) {
	for _, buckets := range []int{16, 256, 1024} {
		for _, limit := range []int{50, core.MaxPage} {
			b.Run(fmt.Sprintf("%d/%d", buckets, limit), func(b *testing.B) {
				s := benchStore(b, buckets, 100_000)
				benchCalls(b, s, func() error {
					page, err := s.List(b.Context(), core.Query{Sinks: []string{"orders"}, Limit: limit})
					if err == nil && len(page.Entries) != limit {
						b.Fatalf("%d entries", len(page.Entries))
					}
					return err
				})
			})
		}
	}
}

func BenchmarkByID(b *testing.B) {
	for _, buckets := range []int{1, 16, 1024} {
		s := benchStore(b, buckets, 1000)
		parkAll(b, s, &core.Message{ID: "keyed", Key: []byte("k"), Sink: "orders", Topic: "t", Delay: time.Hour})
		for _, id := range []string{"m7", "keyed", "unheard-of"} {
			b.Run(fmt.Sprintf("%s/%d", id, buckets), func(b *testing.B) {
				benchCalls(b, s, func() error {
					_, err := s.Get(b.Context(), core.Ref{ID: id, Sink: "orders"})
					if id == "unheard-of" {
						return nil
					}
					return err
				})
			})
		}
	}
}

func BenchmarkStats(b *testing.B) {
	s := benchStore(b, 256, 10_000)
	benchCalls(b, s, func() error { _, err := s.Stats(b.Context(), "orders"); return err })
}

func benchCalls(b *testing.B, s *Store, call func() error) {
	before := redisTime(b, s)
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((redisTime(b, s)-before)*1e6/float64(b.N), "redis-µs/op")
}

// benchStore has messages without a key that are due later, m0 and on.
func benchStore(b *testing.B, buckets, messages int) *Store {
	s := openBench(b, buckets)
	for n := 0; n < messages; n += 500 {
		part := make([]*core.Message, 500)
		for i := range part {
			part[i] = &core.Message{ID: fmt.Sprint("m", n+i), Sink: "orders", Topic: "t", Body: make([]byte, 200), Delay: time.Hour}
		}
		parkAll(b, s, part...)
	}
	return s
}

func openBench(b *testing.B, buckets int) *Store {
	s, err := Open(b.Context(), Config{Addrs: []string{servers.SharedRedis(b).Addr()}, Prefix: fmt.Sprintf("t%d", prefixes.Add(1)),
		Buckets: buckets, Lease: time.Hour, timeout: testTimeout})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.client.FlushAll(context.Background())
		s.Close()
	})
	return s
}

func ownBench(b *testing.B, s *Store) *bucket {
	owned := &bucket{store: s, sink: "orders", keys: s.keys.bucket("orders", 0), token: "bench"}
	if err := s.cutOff(b.Context(), owned); err != nil {
		b.Fatal(err)
	}
	return owned
}

func parkNow(b *testing.B, s *Store, size int) {
	messages := make([]*core.Message, size)
	for n := range messages {
		messages[n] = &core.Message{Generated: true, Sink: "orders", Topic: "t", Body: make([]byte, 200), DeliverAt: time.UnixMilli(1)}
	}
	parkAll(b, s, messages...)
}

func parkAll(t testing.TB, s *Store, messages ...*core.Message) {
	t.Helper()
	for _, r := range s.Park(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// redisTime is the processor time of Redis so far, in seconds.
func redisTime(b *testing.B, s *Store) (spent float64) {
	for line := range strings.Lines(s.client.Info(b.Context(), "cpu").Val()) {
		var part float64
		if n, _ := fmt.Sscanf(line, "used_cpu_user:%f", &part); n == 1 {
			spent += part
		}
		if n, _ := fmt.Sscanf(line, "used_cpu_sys:%f", &part); n == 1 {
			spent += part
		}
	}
	return spent
}
