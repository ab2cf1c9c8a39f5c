package rocketmq

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// busy opens a sink with one worker and has the broker keep it until free is
// called. What is delivered meanwhile waits; answer is for that.
func busy(t *testing.T, c *cluster, answer func(sent) action) (s *Sink, free func()) {
	t.Helper()
	s = open(t, c, `"workers":1`)
	if err := s.Deliver(t.Context(), messages(1)); err != nil { // finds the route
		t.Fatal(err)
	}
	workers := s.brokers.workersOf("a")
	workers <- struct{}{}
	c.brokers["a"].setPlan(answer)
	return s, func() { <-workers }
}

// batchOf is three messages of one key and a Deliver.
func batchOf(deliver int, change ...func(*core.Message)) []*core.Message {
	batch := messages(3, append(change, key("k"))...)
	for n, m := range batch {
		m.ID, m.Body = fmt.Sprintf("id-%d-%d", deliver, n), fmt.Appendf(nil, "body-%d-%d", deliver, n)
	}
	return batch
}

// deliverAll begins Delivers in turn, each when those before it wait, and
// returns what they return once free has been called.
func deliverAll(t *testing.T, s *Sink, free func(), batches ...[]*core.Message) []error {
	t.Helper()
	errs := make([]error, len(batches))
	var group sync.WaitGroup
	for i, batch := range batches {
		group.Go(func() { errs[i] = s.Deliver(t.Context(), batch) })
		awaitWaiting(t, s, i+1)
	}
	free()
	group.Wait()
	return errs
}

// awaitWaiting waits until n batches wait.
func awaitWaiting(t *testing.T, s *Sink, n int) {
	t.Helper()
	poll.Until(t, 10*time.Second, fmt.Sprintf("%d wait", n), func() bool { return s.countWaiting() == n })
}

func (s *Sink) countWaiting() (n int) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	for _, some := range s.batches.waiting {
		n += len(some)
	}
	return n
}

func TestDeliversShareARequest(t *testing.T) {
	c := newCluster(t, "a")
	s, free := busy(t, c, nil)
	for _, err := range deliverAll(t, s, free, batchOf(1), batchOf(2), batchOf(3)) {
		if err != nil {
			t.Error(err)
		}
	}
	requests := c.brokers["a"].seen()[1:]
	if len(requests) != 1 || len(requests[0].parts) != 9 {
		t.Fatalf("%d requests, want 1 of 9 messages", len(requests))
	}
	for deliver := 1; deliver <= 3; deliver++ { // who got the worker is first; each keeps its order
		prefix := fmt.Sprintf("body-%d-", deliver)
		var got []string
		for _, body := range bodies(requests[0].parts) {
			if body[:len(prefix)] == prefix {
				got = append(got, body)
			}
		}
		if diff := cmp.Diff([]string{prefix + "0", prefix + "1", prefix + "2"}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	}
	if n := s.countWaiting(); n != 0 || len(s.batches.waiting) != 0 {
		t.Errorf("%d batches of %d queues are left", n, len(s.batches.waiting))
	}
}

// A message that is refused costs the messages of other Delivers nothing.
func TestSharedRequestIsolatesIllegalMessage(t *testing.T) {
	c := newCluster(t, "a")
	s, free := busy(t, c, func(s sent) action {
		if slices.Contains(bodies(s.parts), "body-2-1") {
			return action{code: rocketmq.CodeIllegal, remark: "the message is illegal", refuse: true}
		}
		return action{}
	})
	errs := deliverAll(t, s, free, batchOf(1), batchOf(2), batchOf(3))
	wantClasses(t, errs[1], "ok", "permanent", "ok")
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("others: %v, %v", errs[0], errs[2])
	}
	got := bodies(c.stored())[1:]
	slices.Sort(got)
	want := []string{"body-1-0", "body-1-1", "body-1-2", "body-2-0", "body-2-2", "body-3-0", "body-3-1", "body-3-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// What a request failed for may be in what is tried again.
func TestRepeatedMessagesShareNothing(t *testing.T) {
	c := newCluster(t, "a")
	s, free := busy(t, c, nil)
	var repeated error
	var group sync.WaitGroup
	group.Go(func() {
		repeated = s.Deliver(t.Context(), batchOf(1, func(m *core.Message) { m.Attempt = 2 }))
	})
	errs := deliverAll(t, s, free, batchOf(2), batchOf(3))
	group.Wait()
	if repeated != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(repeated, errs)
	}
	for _, request := range c.brokers["a"].seen()[1:] {
		if got := bodies(request.parts); slices.Contains(got, "body-1-0") && len(got) != 3 {
			t.Errorf("went along with others: %v", got)
		}
	}
}

// The end of one Deliver's context takes nothing from the others, and what
// waits then is not sent.
func TestSharedRequestOutlivesOneContext(t *testing.T) {
	c := newCluster(t, "a")
	arrived, release := make(chan struct{}), make(chan struct{})
	s, free := busy(t, c, func(sent) action { close(arrived); <-release; return action{} })
	cancelled, cancel := context.WithCancel(t.Context())
	gone, goAway := context.WithCancel(t.Context())
	errs := make([]error, 3)
	var group, first sync.WaitGroup
	first.Go(func() { errs[0] = s.Deliver(gone, batchOf(1)) })
	awaitWaiting(t, s, 1)
	goAway()
	first.Wait()
	wantClasses(t, errs[0], "retry")
	first.Go(func() { errs[1] = s.Deliver(cancelled, batchOf(2)) })
	awaitWaiting(t, s, 1)
	group.Go(func() { errs[2] = s.Deliver(t.Context(), batchOf(3)) })
	awaitWaiting(t, s, 2)
	free()
	<-arrived
	cancel()
	first.Wait()
	wantClasses(t, errs[1], "unknown")
	close(release)
	group.Wait()
	wantClasses(t, errs[2], "ok")
	if got := len(c.stored()); got != 1+6 {
		t.Errorf("%d stored, want 7", got)
	}
}

func TestSharedRequestIsOfBoundedSize(t *testing.T) {
	p := newBatches()
	to := address{topic: "T"}
	var all []*batch
	for _, size := range []int{40, 50, 20, 60} {
		one := newBatch(nil)
		one.wire = make([]byte, size)
		p.add(to, one)
		all = append(all, one)
	}
	if got := p.take(to, all[2], 110); !slices.Equal(got, []*batch{all[2], all[0], all[1]}) {
		t.Errorf("took %d", len(got))
	}
	if got := p.take(to, all[0], 110); got != nil {
		t.Errorf("took one that had left, and %d more", len(got)-1)
	}
	if got := p.take(to, all[3], 10); !slices.Equal(got, all[3:]) {
		t.Errorf("took %d, want the large one alone", len(got))
	}
}
