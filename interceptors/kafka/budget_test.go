//go:build unix

package kafkasource

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// TestBudget: who asks first is served first, what is larger than all passes alone,
// and who stops waiting keeps nothing and holds nobody up.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		var served []string
		taking := func(ctx context.Context, name string, n int) <-chan int {
			got := make(chan int, 1)
			go func() {
				taken, err := b.take(ctx, n)
				if err == nil {
					served = append(served, name)
				}
				got <- taken
			}()
			synctest.Wait()
			return got
		}
		a := <-taking(t.Context(), "a", 6)
		large := taking(t.Context(), "large", 100)
		ctx, cancel := context.WithCancel(t.Context())
		gone := taking(ctx, "gone", 10)
		small := taking(t.Context(), "small", 1)
		if len(served) != 1 {
			t.Errorf("served %v, want a only: it would overtake", served)
		}
		b.give(a)
		got := <-large
		if got != 10 || b.free != 0 {
			t.Errorf("the large one has %d, %d are free", got, b.free)
		}
		cancel()
		if got := <-gone; got != 0 {
			t.Errorf("who has gone has %d", got)
		}
		b.give(got)
		b.give(<-small)
		if b.free != 10 || len(served) != 3 || served[2] != "small" {
			t.Errorf("%d are free in the end, served %v", b.free, served)
		}
	})
}

// TestBudgetTakenOnTheWay: who stops waiting at the moment when it is its turn gives
// back what it was given.
func TestBudgetTakenOnTheWay(t *testing.T) {
	b := newBudget(4)
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if n%3 == 0 {
				go cancel()
			}
			taken, _ := b.take(ctx, 1+n%6)
			runtime.Gosched()
			b.give(taken)
			cancel()
		})
	}
	all.Wait()
	if b.free != 4 || len(b.waiting) != 0 {
		t.Errorf("%d of 4 are free, %d wait", b.free, len(b.waiting))
	}
}

// fillLarge writes n records of 100,000 bytes to each partition.
func (r *rig) fillLarge(topic string, partitions, n int, compression kafka.Compression) {
	r.t.Helper()
	for partition := range partitions {
		var records []kafka.Record
		for i := range n {
			body := strconv.Itoa(partition) + "-" + strconv.Itoa(i) + "-"
			records = append(records, text("k", body+string(bytes.Repeat([]byte("x"), 100_000-len(body))), "delaybridge-delay", "1h"))
		}
		for len(records) > 0 {
			some := records[:min(8, len(records))]
			r.produceBatch(topic, partition, compression, some...)
			records = records[len(some):]
		}
	}
}

// TestBufferBytes: while nothing is taken from them, many partitions have no more in
// memory than they may have together, and then all of it is parked.
func TestBufferBytes(t *testing.T) { // alone, as it looks at the memory of the process
	const partitions, each, allowed = 24, 24, 2 << 20
	r := newRig(t)
	topic := r.topic(".delayed", partitions)
	r.fillLarge(topic, partitions, each, 0)
	r.store.SetFail(errors.New("away"))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	src := r.run(r.source([]string{topic}, map[string]any{"buffer_bytes": allowed}))
	poll.Until(t, 2*time.Minute, "most partitions wait", func() bool {
		read := src.assigned.All()
		if len(read) == 0 {
			return false
		}
		b := read[0].fetched
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.waiting) >= partitions-4
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 6*allowed {
		t.Errorf("%d bytes of memory, with %d allowed", used, allowed)
	}
	r.store.SetFail(nil)
	wantDifferent(t, r, partitions*each)
}

// wantDifferent holds that so many different messages are parked, none twice.
func wantDifferent(t testing.TB, r *rig, want int) {
	t.Helper()
	seen := make(map[string]bool)
	for _, m := range r.store.Await(t, want) {
		if seen[m.ID] {
			t.Errorf("%s is parked twice", m.ID)
		}
		seen[m.ID] = true
	}
	if len(seen) != want {
		t.Errorf("%d messages, want %d", len(seen), want)
	}
}

// TestLargerThanBuffer: what is larger than all that may be in memory passes alone,
// compressed or not, also if it is large only without compression.
func TestLargerThanBuffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain, packed, tight := r.topic(".delayed", 3), r.topic(".packed", 3), r.topic(".tight", 3)
	r.fillLarge(plain, 3, 10, 0)
	r.fillLarge(packed, 3, 10, kafka.Zstd)
	var records []kafka.Record
	for n := range 60 { // 6 MB, which is a batch of some kilobytes
		records = append(records, text("k", strconv.Itoa(n)+string(bytes.Repeat([]byte("x"), 100_000)), "delaybridge-delay", "1h"))
	}
	for partition := range 3 {
		r.produceBatch(tight, partition, kafka.Zstd, records...)
	}
	r.run(r.source([]string{plain, packed, tight}, map[string]any{"buffer_bytes": 1024}))
	wantDifferent(t, r, 3*10+3*10+3*60)
}
