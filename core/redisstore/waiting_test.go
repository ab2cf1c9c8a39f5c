package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// replicated is a store whose answers wait for a replica. c says how.
func replicated(t *testing.T, c Config) (*Store, *servers.RedisServer) {
	t.Helper()
	master := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	c.Addrs, c.Durability = []string{master.Addr()}, DurabilityReplicated
	return open(t, c), replica
}

// TestDurabilityTimeoutIsWaitedFor: also one that is longer than any other call
// may take.
func TestDurabilityTimeoutIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, replica := replicated(t, Config{DurabilityTimeout: time.Minute, timeout: commandTimeout})
	replica.Pause()
	time.AfterFunc(commandTimeout+time.Second, replica.Resume)
	if r := s.Park(t.Context(), &core.Message{ID: "a", Sink: "orders", Topic: "t", Delay: time.Hour})[0]; r.Err != nil {
		t.Errorf("park: %v", r.Err)
	}
}

// TestCallersThatWaitTakeNoLease: what is owned is renewed, though very many
// callers wait for a replica that does not answer.
func TestCallersThatWaitTakeNoLease(t *testing.T) {
	t.Parallel()
	s, replica := replicated(t, Config{DurabilityTimeout: time.Minute, Lease: 6 * time.Second})
	const many = 6 * poolSize // keep the connections that callers share busy for 12 s
	var messages []*core.Message
	for n := range many {
		messages = append(messages, &core.Message{ID: fmt.Sprint("m", n), Sink: "orders", Topic: "t", Delay: time.Hour})
	}
	for _, r := range s.Park(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	s.durable.timeout = 2 * time.Second
	var lost atomic.Int64
	defer serveWith(t, s, func(ctx context.Context, _ core.Bucket) error {
		<-ctx.Done()
		if context.Cause(ctx) == core.ErrLeaseLost {
			lost.Add(1)
		}
		return nil
	})()
	until(t, "every bucket is owned", func() bool { return len(s.owned.owns("orders")) == 16 })
	replica.Pause()
	defer replica.Resume()
	var callers sync.WaitGroup
	for n := range many {
		callers.Go(func() {
			if _, err := s.Reschedule(t.Context(), core.Ref{ID: fmt.Sprint("m", n), Sink: "orders"}, core.When{After: 2 * time.Hour}); err == nil {
				t.Error("rescheduled on two servers, of which one does not answer")
			}
		})
	}
	callers.Wait()
	if n := lost.Load(); n > 0 {
		t.Errorf("%d leases were lost", n)
	}
}

// TestRenewedThoughOtherCallsHang: as they do where one server of several does not
// answer; the client library may wait for longer than it is told to.
func TestRenewedThoughOtherCallsHang(t *testing.T) {
	t.Parallel()
	config := Config{Addrs: []string{servers.Redis(t, servers.RedisOptions{}).Addr()}, Lease: 20 * time.Second, // what is lost meanwhile is not owned again
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	s := open(t, config)
	var free sync.RWMutex // taken: heartbeats and announcements stand still, though their time is over
	var renewals atomic.Int64
	s.keeping.AddHook(around(func(name string, run func() error) error {
		switch name {
		case "publish", s.scripts.beat.sha:
			free.RLock()
			defer free.RUnlock()
		case s.scripts.renew.sha:
			defer renewals.Add(1)
		}
		return run()
	}))
	defer serve(t, s, newCollector(0), core.RetryPolicy{})()
	until(t, "every bucket is owned", func() bool { return len(s.owned.owns("orders")) == 16 })
	free.Lock()
	defer free.Unlock()
	before := renewals.Load()
	until(t, "leases are renewed more than once", func() bool { return renewals.Load() > before+2 })
}

// TestSilentMasterOfACluster: of a cluster whose slots are not all served, the
// masters that answer go on to be served.
func TestSilentMasterOfACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 3)
	for _, node := range cluster.Masters {
		node.MustDo("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	config := clusterConfig(t, cluster)
	config.timeout = commandTimeout
	s, silent := open(t, config), cluster.Masters[0]
	defer serve(t, s, newCollector(0), core.RetryPolicy{})()
	healthy := bucketsElsewhere(t, s, silent)
	var lost []int
	for range 3 { // a machine that stands still loses some, too, but not each time
		until(t, "every bucket is owned", func() bool { return len(s.owned.owns("orders")) == 16 })
		if lost = lostBySilence(s, silent, healthy); len(lost) == 0 {
			return
		}
	}
	t.Errorf("buckets %v are not owned any more, though their servers answer", lost)
}

// bucketsElsewhere are those that are not on a server of the cluster.
func bucketsElsewhere(t *testing.T, s *Store, server *servers.RedisServer) []int {
	t.Helper()
	var numbers []int
	for n := range 16 {
		node, err := nodeOf(t.Context(), s.client, s.keys.bucket("orders", n)[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(node), server.Addr()) {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 || len(numbers) == 16 {
		t.Fatalf("%d of 16 buckets are on two of three servers", len(numbers))
	}
	return numbers
}

// lostBySilence has a server not answer for a while, and tells which of these
// buckets are not owned any more, or again.
func lostBySilence(s *Store, server *servers.RedisServer, numbers []int) (lost []int) {
	before := make(map[int]*bucket)
	for _, n := range numbers {
		before[n] = s.owned.get("orders", n)
	}
	server.Pause()
	defer server.Resume()
	time.Sleep(2 * s.config.Lease) // all that was owned before is renewed or lost by then
	for n, b := range before {
		if s.owned.get("orders", n) != b {
			lost = append(lost, n)
		}
	}
	return lost
}

func (o *ownedBuckets) get(sink string, number int) *bucket {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[sink][number]
}

// TestParkRefusesWhatNobodyWaitsFor: while Redis does not answer, producers that
// give up and send again do not fill the memory.
func TestParkRefusesWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{server.Addr()}})
	s.parker.most = 1 << 20
	s.config.timeout = 3 * time.Second
	server.Pause()
	var callers sync.WaitGroup
	defer callers.Wait()
	defer server.Resume()
	refused := make(chan error, 1)
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	for range 1000 {
		callers.Go(func() {
			m := &core.Message{Sink: "orders", Topic: "t", Body: make([]byte, 10<<10), Generated: true}
			if r := s.Park(ctx, m)[0]; errors.Is(r.Err, core.ErrUnavailable) && strings.Contains(r.Err.Error(), "already wait for Redis") {
				select {
				case refused <- r.Err:
				default:
				}
			}
		})
	}
	select {
	case <-refused:
	case <-time.After(time.Minute):
		t.Error("nothing was refused")
	}
	s.parker.mu.Lock()
	if size := s.parker.queue("").size; size > 2<<20 {
		t.Errorf("%d bytes wait", size)
	}
	s.parker.mu.Unlock()
}

// TestGivenUpParkKeepsNoMessage: what was not sent when its caller gave up is refused
// and never stored; what was sent is waited for. Either way the caller may then do with
// its messages what it likes. The race detector is part of the test.
func TestGivenUpParkKeepsNoMessage(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{server.Addr()}})
	message := func(id string) *core.Message {
		return &core.Message{ID: id, Sink: "orders", Topic: "t", Body: []byte(id), Delay: time.Hour, TTL: 2 * time.Hour}
	}
	if r := s.Park(t.Context(), message("known"))[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	queue := func() (sent, waiting int) {
		s.parker.mu.Lock()
		defer s.parker.mu.Unlock()
		q := s.parker.queue("")
		for _, b := range q.waiting {
			waiting += b.count
		}
		return q.batches, waiting
	}
	until(t, "that is no longer on its way", func() bool { sent, _ := queue(); return sent == 0 })
	server.Pause()
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	// The messages of each call: one is known, one is new, one has no id yet.
	const many = 20
	refused, stored := make(chan int, many), make(chan int, many)
	var callers sync.WaitGroup
	call := func(n int) {
		mine := []*core.Message{message("known"), message(fmt.Sprint("m", n)), {Sink: "orders", Topic: "t", Generated: true, Delay: time.Hour}}
		to := stored
		for _, r := range s.Park(ctx, mine...) {
			if errors.Is(r.Err, core.ErrUnavailable) {
				to = refused
			} else if r.Err != nil {
				t.Errorf("given up: %v", r.Err)
			}
		}
		to <- n
		for _, m := range mine {
			*m = core.Message{ID: "other", Sink: "other", Priority: 1, Generated: !m.Generated}
		}
	}
	callers.Go(func() { call(0) })
	until(t, "a batch is on its way", func() bool { sent, waiting := queue(); return sent == 1 && waiting == 0 })
	for n := 1; n < many; n++ {
		callers.Go(func() { call(n) })
	}
	until(t, "the others wait", func() bool { _, waiting := queue(); return waiting == 3*(many-1) })
	giveUp()
	for n := 1; n < many; n++ {
		m := <-refused // the one that is on its way has no answer before the server is back
		if _, waiting := queue(); m == 0 || waiting == 0 {
			t.Errorf("call %d was refused, %d messages wait", m, waiting)
		}
		defer func() {
			if _, err := s.Get(t.Context(), core.Ref{Sink: "orders", ID: fmt.Sprint("m", m)}); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("m%d was refused: %v", m, err)
			}
		}()
	}
	server.Resume()
	callers.Wait()
	entry, err := s.Get(t.Context(), core.Ref{Sink: "orders", ID: fmt.Sprint("m", <-stored)})
	if err != nil || string(entry.Message.Body) != "m0" {
		t.Errorf("what was sent: %q, %v", entry.Message.Body, err)
	}
	if _, err := s.Get(t.Context(), core.Ref{Sink: "other", ID: "other"}); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("what was never parked: %v", err)
	}
}
