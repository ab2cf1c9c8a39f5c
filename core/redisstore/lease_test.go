package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// patience bounds every wait for what must come.
const patience = 2 * time.Minute

// until polls for what other goroutines and Redis bring about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func second(t *testing.T, first *Store, name string) *Store {
	config := first.config
	config.Instance = name
	return open(t, config)
}

func TestInstancesShareTheBuckets(t *testing.T) {
	config := freshConfig(t)
	config.Instance = "a"
	a := open(t, config)
	b, c := second(t, a, "b"), second(t, a, "c")
	a.config.Lease = 20 * time.Second // far more than its hand-over takes
	stores := []*Store{a, b, c}
	sink := newCollector(1000)
	stops := make([]func(), 3)
	for n, s := range stores {
		stops[n] = serve(t, s, sink, core.RetryPolicy{})
		defer stops[n]()
	}
	until(t, "every bucket has one owner, and every instance some", func() bool {
		owned, some := 0, true
		for _, s := range stores {
			own := len(s.owned.owns("orders"))
			owned, some = owned+own, some && own > 0
		}
		return owned == 16 && some
	})
	for n := range 1000 {
		s := stores[n%3]
		m := &core.Message{ID: fmt.Sprint("m", n), Sink: "orders", Topic: "t", Delay: time.Duration(n%200) * time.Millisecond}
		if r := s.Park(t.Context(), m)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		switch n {
		case 300:
			began := time.Now()
			stops[0]()
			until(t, "the others own all", func() bool { return len(b.owned.owns("orders"))+len(c.owned.owns("orders")) == 16 })
			if took := time.Since(began); took > a.config.Lease*9/10 {
				t.Errorf("hand-over took %s, longer than leases last", took)
			}
		case 600:
			b.Close() // dies without a word
		}
		if n >= 600 {
			stores[1], stores[0] = c, c
		}
	}
	sink.await(t)
	if repeats := sink.repeats(); repeats > 500 {
		t.Errorf("%d repeats, more than an owner can have had in flight", repeats)
	}
}

// byHand is the sinkServer of orders whose loop is run by the test.
func byHand(t *testing.T, s *Store, work func(context.Context, core.Bucket) error) *sinkServer {
	t.Helper()
	l, err := s.newLoop()
	if err != nil {
		t.Fatal(err)
	}
	l.background.Go(l.alarm.run)
	t.Cleanup(func() {
		close(l.stop)
		l.finish()
	})
	v := l.newSinkServer("orders", work)
	l.sinks[v.sink] = v
	return v
}

// step sends what is queued and lets the loop know of one thing that came of it.
func (l *loop) step(ctx context.Context) {
	l.flush(ctx)
	(<-l.posts)()
}

// ownByHand owns bucket 0 of sink orders, without renewing.
func ownByHand(t *testing.T, s *Store) *bucket {
	t.Helper()
	held := make(chan *bucket, 1)
	v := byHand(t, s, func(ctx context.Context, b core.Bucket) error {
		held <- b.(*bucket)
		<-ctx.Done()
		return nil
	})
	until(t, "bucket is free", func() bool { return v.requestNow(t.Context(), 0) })
	t.Cleanup(func() {
		v.leases[0].cancel(errStopping)
		v.step(context.Background())
	})
	select {
	case b := <-held:
		return b
	case <-time.After(patience):
		t.Fatal("bucket was lost before work began")
		return nil
	}
}

// requestNow asks for one bucket; it tells whether the bucket is owned.
func (v *sinkServer) requestNow(ctx context.Context, number int) bool {
	v.requestLease(number)
	v.step(ctx)
	return v.leases[number] != nil
}

// giveBack ends the lease of a bucket and waits until all that goes on has ended.
func (v *sinkServer) giveBack(ctx context.Context, number int) {
	v.leases[number].cancel(errStopping)
	for v.step(ctx); v.settling > 0; {
		v.step(ctx)
	}
}

// idle is work that does nothing for as long as it may.
func idle(ctx context.Context, _ core.Bucket) error {
	<-ctx.Done()
	return nil
}

func TestPausedOwnerIsFenced(t *testing.T) {
	config := freshConfig(t)
	config.Buckets = 1
	a := open(t, config)
	b := second(t, a, "b")
	b.config.Lease = time.Hour           // nobody renews it here
	past := time.Now().Add(-time.Second) // due at once, where no delay is due at the next millisecond
	for _, r := range a.Park(t.Context(), &core.Message{ID: "x", Sink: "orders", Topic: "t", DeliverAt: past}, &core.Message{ID: "y", Sink: "orders", Topic: "t", DeliverAt: past}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	old := ownByHand(t, a)
	if batch, err := old.Take(t.Context(), 10); err != nil || len(batch.Messages) != 2 {
		t.Fatalf("take: %v %v", batch, err)
	}
	// a renews no more, as if it were stopped; b takes over.
	heir := ownByHand(t, b)
	if _, err := old.Take(t.Context(), 10); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("take of the old owner: %v, want lease lost", err)
	}
	if err := old.Settle(t.Context(), core.Outcome{ID: "x", State: core.Delivered}); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("settle of the old owner: %v, want lease lost", err)
	}
	batch, err := heir.Take(t.Context(), 10)
	if err != nil || len(batch.Messages) != 2 {
		t.Fatalf("take of the heir: %v %v, want both messages", batch, err)
	}
	for _, m := range batch.Messages {
		if m.Attempt != 2 || !m.CutOff {
			t.Errorf("%s has attempt %d, cut off %v; want 2, true", m.ID, m.Attempt, m.CutOff)
		}
	}
	if err := old.Settle(t.Context()); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("the old owner settles what the heir has in flight: %v", err)
	}
	if err := heir.Settle(t.Context(), core.Outcome{ID: "x", State: core.Delivered}, core.Outcome{ID: "y", State: core.Delivered}); err != nil {
		t.Error(err)
	}
}

func TestLeaseThatCannotBeRenewedEndsByOurOwnClock(t *testing.T) {
	config := freshConfig(t)
	config.Buckets = 1
	s := open(t, config)
	var began time.Time
	var logged bytes.Buffer
	cause := make(chan error, 1)
	v := byHand(t, s, func(ctx context.Context, _ core.Bucket) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	v.log = slog.New(slog.NewTextHandler(&logged, nil))
	until(t, "bucket is owned", func() bool {
		began = time.Now()
		return v.requestNow(t.Context(), 0)
	})
	select {
	case err := <-cause:
		if !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("ended with %v, want lease lost", err)
		}
	case <-time.After(patience):
		t.Fatal("lease has not ended, or work has not begun")
	}
	if took := time.Since(began); took < config.Lease-50*time.Millisecond || took > config.Lease+30*time.Second {
		t.Errorf("ended after %s, want about %s", took, config.Lease)
	}
	for v.step(t.Context()); v.settling > 0; {
		v.step(t.Context())
	}
	for n := range 3 {
		v.turn(time.Now().Add(time.Duration(n) * time.Hour))
	}
	if n := strings.Count(logged.String(), "leases of buckets lost"); n != 1 {
		t.Errorf("logged %d times that the bucket was lost:\n%s", n, logged.String())
	}
}

// TestRenewalProlongs: for Redis as well as for us.
func TestRenewalProlongs(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.Lease = 1, time.Hour
	s := open(t, config)
	v := byHand(t, s, idle)
	if !v.requestNow(t.Context(), 0) {
		t.Fatal("bucket is not owned")
	}
	wantRenewed(t, s, v)
	v.giveBack(t.Context(), 0)
}

// TestOthersHearOfANewInstance: that and the hand-over, and need not wait for their
// next heartbeat.
func TestOthersHearOfANewInstance(t *testing.T) {
	config := freshConfig(t)
	config.Lease = time.Hour // nobody looks by the clock
	a := open(t, config)
	b := second(t, a, "b")
	defer serve(t, a, newCollector(0), core.RetryPolicy{})()
	until(t, "a owns all", func() bool { return len(a.owned.owns("orders")) == 16 })
	defer serve(t, b, newCollector(0), core.RetryPolicy{})()
	until(t, "both own half", func() bool { return len(b.owned.owns("orders")) == 8 && len(a.owned.owns("orders")) == 8 })
}

// TestLeaseRequestThatFallsToAnother: who else is there may come to be known while a lease request
// is on its way, and is looked at again when the lease request is answered.
func TestLeaseRequestThatFallsToAnother(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.Lease = 1, time.Hour
	s := open(t, config)
	v := byHand(t, s, idle)
	v.requestLease(0)
	v.rebalance(nil)
	v.step(t.Context())
	if len(v.leases) != 1 || !v.beating {
		t.Fatalf("%d buckets are owned, and that nobody looks again is %v", len(v.leases), !v.beating)
	}
	v.stopping = true
	v.step(t.Context())
	v.giveBack(t.Context(), 0)
}

func TestEarlierMessageWakesOwnerOfAnotherInstance(t *testing.T) {
	config := freshConfig(t)
	config.Guard, config.Lease = time.Hour, time.Hour // only a wake can help
	config.Buckets = 1
	config.Instance = "owner"
	owner := open(t, config)
	sink := newCollector(2)
	defer serve(t, owner, sink, core.RetryPolicy{})()
	until(t, "bucket is owned", func() bool { return len(owner.owned.owns("orders")) == 1 })
	other := second(t, owner, "other")
	for _, m := range []*core.Message{
		{ID: "later", Sink: "orders", Topic: "t", Delay: time.Hour},
		{ID: "sooner", Sink: "orders", Topic: "t", Delay: 50 * time.Millisecond},
	} {
		if r := other.Park(t.Context(), m)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	until(t, "sooner is delivered", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return sink.seen["sooner"] == 1
	})
	if _, err := other.Reschedule(t.Context(), core.Ref{ID: "later", Sink: "orders"}, core.When{}); err != nil {
		t.Fatal(err)
	}
	sink.await(t)
}

// owns lists the buckets of a sink that this process owns.
func (o *ownedBuckets) owns(sink string) []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	var numbers []int
	for n := range o.all[sink] {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}
