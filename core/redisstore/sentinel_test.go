package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestFailoverKeepsWhatReplicasHave accepts while Sentinel replaces a master
// that was killed. At level replicated nothing accepted is lost.
func TestFailoverKeepsWhatReplicasHave(t *testing.T) {
	group := servers.Sentinel(t, 3, time.Second)
	s := open(t, Config{Addrs: group.Addrs(), MasterName: servers.SentinelName, Durability: DurabilityReplicated,
		DurabilityTimeout: 5 * time.Second, Lease: suiteLease})
	const before = 300
	sink := newCollector(before)
	stop := serve(t, s, sink, core.RetryPolicy{})
	defer stop()
	for n := range before {
		m := &core.Message{ID: time.Duration(n).String(), Sink: "orders", Topic: "t", Delay: time.Duration(n*20) * time.Millisecond}
		parkUntilAccepted(t, s, m)
	}
	group.Master.Kill()
	s.durable.timeout = time.Second // which nothing reaches any more
	// With one server left no replica can have it: refused or unknown, never accepted.
	until(t, "the replica is master", func() bool {
		r := s.Park(t.Context(), &core.Message{ID: "after", Sink: "orders", Topic: "t", Delay: time.Hour})[0]
		if r.Err == nil {
			t.Fatal("accepted as replicated with one server left")
		}
		_, err := s.Get(t.Context(), core.Ref{ID: "after", Sink: "orders"})
		return errors.Is(r.Err, core.ErrUnknown) && err == nil
	})
	sink.await(t)
}

// parkUntilAccepted parks again what a failover has met: sentinels take a master
// that stands still for a lost one.
func parkUntilAccepted(t *testing.T, s *Store, m *core.Message) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if last = s.Park(t.Context(), m)[0].Err; last == nil {
			return
		}
		if !errors.Is(last, core.ErrUnknown) && !errors.Is(last, core.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("park %s: %v", m.ID, last)
		}
	}
}
