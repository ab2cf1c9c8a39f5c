package redisstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSparseBatchWaitsForAsMany: after a batch that took long, one with few messages a
// bucket waits until it has as many, for an eighth of that time or 5 ms at most.
func TestSparseBatchWaitsForAsMany(t *testing.T) {
	withdrawn := func(bucket int) *pending { // so that its batch leaves without going to Redis
		return &pending{sink: "orders", bucket: bucket, call: &parkCall{}, place: placeNowhere}
	}
	tests := []struct {
		name              string
		messages, buckets int
		took              time.Duration // of the last batch, which had 100 messages
		wait              time.Duration
	}{
		{"fewer than the last had", 99, 99, 20 * time.Millisecond, 2500 * time.Microsecond},
		{"after a batch that Redis did not answer", 99, 99, 3 * time.Second, 5 * time.Millisecond},
		{"as many", 100, 100, 80 * time.Millisecond, 0},
		{"few, but in one bucket", 16, 1, 80 * time.Millisecond, 0},
		{"few in one bucket", 15, 1, 16 * time.Millisecond, 2 * time.Millisecond},
		{"after a batch that took a moment", 1, 1, time.Millisecond, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &parker{store: &Store{keys: keySpace{buckets: 256}}}
				k.bound(durability{})
				q := k.queue("")
				q.linger(&parkBatch{count: 100}, tt.took)
				began := time.Now()
				left := func() bool {
					k.mu.Lock()
					defer k.mu.Unlock()
					return len(q.waiting) == 0
				}
				k.mu.Lock()
				for n := range tt.messages {
					q.add(withdrawn(n % tt.buckets))
				}
				q.start()
				k.mu.Unlock()
				for synctest.Wait(); !left(); synctest.Wait() {
					time.Sleep(100 * time.Microsecond)
					if time.Since(began) > time.Second {
						t.Fatal("the batch never leaves")
					}
				}
				if waited := time.Since(began); waited != tt.wait {
					t.Errorf("the batch waited %s, want %s", waited, tt.wait)
				}
			})
		})
	}
}
