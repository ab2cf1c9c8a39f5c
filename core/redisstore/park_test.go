package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestOrderOfACall: the messages of one key are stored in the order of the call, though
// others park at the same time, and though the call is larger than a batch.
func TestOrderOfACall(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, load := range []struct{ producers, calls, size int }{{60, 6, 90}, {3, 1, 3 * maxBatchMessages}} {
		t.Run(fmt.Sprintf("%d producers of %d messages", load.producers, load.size), func(t *testing.T) {
			s := open(t, Config{Addrs: []string{server.Addr()}, Prefix: fmt.Sprintf("t%d", prefixes.Add(1)), Buckets: 4})
			due := time.Now().Add(time.Hour)
			var producers sync.WaitGroup
			for p := range load.producers {
				producers.Go(func() {
					for c := range load.calls {
						messages := make([]*core.Message, load.size)
						for n := range messages {
							messages[n] = &core.Message{ID: fmt.Sprintf("%d.%d", p, c*load.size+n), Sink: "orders", Topic: "t",
								Key: fmt.Append(nil, "key", p), DeliverAt: due}
						}
						for _, r := range s.Park(t.Context(), messages...) {
							if r.Err != nil {
								t.Error(r.Err)
							}
						}
					}
				})
			}
			producers.Wait()
			next := make(map[int]int)
			for b := range 4 {
				for _, member := range s.client.ZRange(t.Context(), s.keys.bucket("orders", b)[5], 0, -1).Val() {
					var p, n int
					fmt.Sscanf(member[seqLen:], "%d.%d", &p, &n)
					if n != next[p] {
						t.Fatalf("message %d of producer %d is stored before message %d", n, p, next[p])
					}
					next[p]++
				}
			}
			for p := range load.producers {
				if next[p] != load.calls*load.size {
					t.Errorf("%d messages of producer %d are stored", next[p], p)
				}
			}
		})
	}
}

// TestFrozenMasterHoldsUpNobodyElse: of a cluster with a master that does not answer,
// the others go on to accept, also while much waits for that one.
func TestFrozenMasterHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 3)
	s, frozen := open(t, clusterConfig(t, cluster)), cluster.Masters[0]
	healthy := bucketsElsewhere(t, s, frozen)
	message := func(bucket int) *core.Message {
		return &core.Message{Generated: true, Sink: "orders", Topic: "t", Key: keyIn(bucket), Delay: time.Hour}
	}
	if r := s.Park(t.Context(), message(healthy[0]))[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	elsewhere := make(map[int]bool)
	for _, n := range healthy {
		elsewhere[n] = true
	}
	frozen.Pause()
	ctx, giveUp := context.WithCancel(t.Context())
	var answered atomic.Int64
	var callers sync.WaitGroup
	for n := range 16 {
		if elsewhere[n] {
			continue
		}
		for range 300 {
			callers.Go(func() {
				s.Park(ctx, message(n))
				answered.Add(1)
			})
		}
	}
	until(t, "the frozen master has a queue", func() bool {
		s.parker.mu.Lock()
		defer s.parker.mu.Unlock()
		return len(s.parker.queue(s.serverOf(t.Context(), "orders", frozenBucket(elsewhere))).waiting) > 0
	})
	for n := range 200 {
		if r := s.Park(t.Context(), message(healthy[n%len(healthy)]))[0]; r.Err != nil {
			t.Errorf("park on a server that answers: %v", r.Err)
		}
	}
	if n := answered.Load(); n > 0 {
		t.Errorf("accepting on servers that answer took as long as %d calls to one that does not", n)
	}
	giveUp()
	frozen.Resume()
	callers.Wait()
}

func frozenBucket(elsewhere map[int]bool) int {
	for n := range 16 {
		if !elsewhere[n] {
			return n
		}
	}
	return 0
}

// keyIn makes a key of a bucket of 16.
func keyIn(bucket int) []byte {
	for n := 0; ; n++ {
		if key := fmt.Append(nil, "k", n); core.BucketOf(key, "", 16) == bucket {
			return key
		}
	}
}

// TestRememberedIDsAreBounded: what is remembered is what the window explains, also
// where everything is cancelled and nobody serves the sink.
func TestRememberedIDsAreBounded(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.DedupeWindow, config.timeout = 1, time.Millisecond, commandTimeout
	s := open(t, config)
	done := s.keys.bucket("orders", 0)[4]
	cancelled := func(from, to int) {
		for n := from; n < to; n++ {
			id := fmt.Sprint("m", n)
			if r := s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: time.Hour})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
			if _, err := s.Cancel(t.Context(), core.Ref{ID: id, Sink: "orders"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const many = 300
	cancelled(0, many)
	last, err := s.client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "no call that was sent before can arrive any more", func() bool {
		now, err := s.client.Time(t.Context()).Result()
		return err == nil && now.Sub(last) > commandTimeout/validShare+10*time.Millisecond
	})
	cancelled(many, 2*many)
	for n := range many {
		if err := s.client.ZScore(t.Context(), done, fmt.Sprint("m", n)).Err(); err == nil {
			t.Fatalf("m%d is still remembered, with %d others", n, s.client.ZCard(t.Context(), done).Val()-1)
		}
	}
}
