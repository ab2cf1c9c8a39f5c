package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func serveRules() []rule {
	return []rule{
		{"each bucket has a work of its own", eachBucket},
		{"sinks are served apart", sinksApart},
		{"returns when every work has", returnsAfterWorks},
		{"a work that fails is run again", failedRunsAgain},
		{"a bucket is useless after its work", uselessAfterwards},
		{"serving again goes on", servedAgain},
		{"another instance takes over", takesOver},
		{"a crash counts an attempt", crashCounts},
		{"a crash is over with the next outcome", crashIsOver},
	}
}

// drain serves a sink until the test ends: it delivers everything, and tells
// each batch when it is settled.
func drain(t reporter, store core.Store) <-chan []*core.Message {
	batches := make(chan []*core.Message, 100_000)
	drainTo(t, store, batches)
	return batches
}

func drainTo(t reporter, store core.Store, batches chan<- []*core.Message) (stop func()) {
	return serve(t, store, Sink, func(ctx context.Context, b core.Bucket) error {
		for ctx.Err() == nil {
			if err := drainOnce(ctx, b, batches); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
}

func drainOnce(ctx context.Context, b core.Bucket, batches chan<- []*core.Message) error {
	batch, err := b.Take(ctx, 7)
	if err != nil {
		return err
	}
	if len(batch.Messages) == 0 {
		return b.Wait(ctx, batch.Next)
	}
	var outcomes []core.Outcome
	for _, m := range batch.Messages {
		outcomes = append(outcomes, delivered(m.ID))
	}
	if err := b.Settle(context.WithoutCancel(ctx), outcomes...); err != nil {
		return err
	}
	batches <- batch.Messages
	return nil
}

// collect returns the first n messages that are delivered.
func collect(t reporter, batches <-chan []*core.Message, n int) []*core.Message {
	t.Helper()
	var got []*core.Message
	for timeout := time.After(patience); len(got) < n; {
		select {
		case batch := <-batches:
			got = append(got, batch...)
		case <-timeout:
			t.Fatalf("%d of %d messages were delivered within %s", len(got), n, patience)
		}
	}
	return got
}

// wantEachOnce checks that the messages are those with the IDs from m0 on.
func wantEachOnce(t reporter, got []*core.Message, n int) {
	t.Helper()
	times := make(map[string]int)
	for _, m := range got {
		times[m.ID]++
	}
	for i := range n {
		if id := fmt.Sprint("m", i); times[id] != 1 {
			t.Errorf("%s was delivered %d times", id, times[id])
		}
	}
	if len(times) != n {
		t.Errorf("%d messages were delivered, want %d", len(times), n)
	}
}

func parkMany(t reporter, store core.Store, from, to int) {
	t.Helper()
	var messages []*core.Message
	for i := from; i < to; i++ {
		messages = append(messages, message(fmt.Sprint("m", i)))
	}
	park(t, store, messages...)
}

func eachBucket(t *suite) {
	const n = 5
	store := t.open(n)
	o := own(t, store, Sink, n)
	names := make(map[string]bool)
	for _, b := range o.buckets {
		names[b.String()] = true
	}
	if len(names) != n {
		t.Errorf("buckets call themselves %v, want %d names", names, n)
	}
	o.stop()
	parkMany(t, store, 0, 50)
	wantEachOnce(t, collect(t, drain(t, store), 50), 50)
}

func sinksApart(t *suite) {
	store := t.open(1)
	park(t, store, message("mine"), message("other", sink(OtherSink)))
	mine, other := own(t, store, Sink, 1), own(t, store, OtherSink, 1)
	wantIDs(t, mine.await(2).Messages, "mine")
	wantIDs(t, other.await(2).Messages, "other")
	mine.settle(delivered("other"))
	other.settle()
	wantIDs(t, other.take(2).Messages, "other")
}

func returnsAfterWorks(t *suite) {
	store := t.open(3)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var begun, ended atomic.Int32
	all := make(chan struct{})
	returned := make(chan error, 1)
	go func() {
		returned <- store.Serve(ctx, Sink, func(ctx context.Context, b core.Bucket) error {
			if begun.Add(1) == 3 {
				close(all)
			}
			<-ctx.Done()
			// There is time to settle what is in flight.
			if context.Cause(ctx) != core.ErrLeaseLost {
				if err := b.Settle(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("settle while Serve ends: %v", err)
				}
			}
			ended.Add(1)
			return nil
		})
	}()
	receive(t, all)
	cancel()
	receive(t, returned)
	if ended.Load() != 3 {
		t.Errorf("Serve returned before %d works", 3-ended.Load())
	}
}

// receive waits for a signal that must come.
func receive[T any](t reporter, signal <-chan T) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("waited %s in vain", patience)
	}
}

func failedRunsAgain(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	var failed atomic.Bool
	batches := make(chan []*core.Message, 1)
	serve(t, store, Sink, func(ctx context.Context, b core.Bucket) error {
		for !failed.Load() { // it may not be due for a part of a millisecond
			batch, err := b.Take(ctx, 1)
			if err != nil {
				t.Errorf("take: %v", err)
			}
			if failed.Store(err != nil || len(batch.Messages) > 0); failed.Load() {
				return errors.New("fails with a message in flight")
			}
		}
		for ctx.Err() == nil {
			if err := drainOnce(ctx, b, batches); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	again := collect(t, batches, 1)
	wantIDs(t, again, "m")
	if m := again[0]; m.Attempt != 2 || !m.CutOff {
		t.Errorf("it may have been sent, and comes with attempt %d, cut off %t; want 2, true", m.Attempt, m.CutOff)
	}
}

func uselessAfterwards(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	before := own(t, store, Sink, 1)
	before.stop()
	old := before.buckets[0]
	now := own(t, store, Sink, 1)
	wantIDs(t, now.await(1).Messages, "m")
	if batch, err := old.Take(patient(t), 1); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("take: %v, err %v; want %v", ids(batch.Messages), err, core.ErrLeaseLost)
	}
	if err := old.Settle(patient(t), delivered("m")); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("settle: %v, want %v", err, core.ErrLeaseLost)
	}
	wantState(t, store, "m", core.Delivering)
	now.settle(retrying("m", 0, 1))
	wantIDs(t, now.await(1).Messages, "m")
}

func servedAgain(t *suite) {
	store := t.open(2)
	for round := range 3 {
		parkMany(t, store, round*10, round*10+10)
		batches := make(chan []*core.Message, 100)
		stop := drainTo(t, store, batches)
		collect(t, batches, 10)
		stop()
	}
}

func takesOver(t *suite) {
	first, second := t.openTwo(4)
	batches := make(chan []*core.Message, 1000)
	parkMany(t, first, 0, 40)
	stop := drainTo(t, first, batches)
	got := collect(t, batches, 40)
	drainTo(t, second, batches)
	parkMany(t, second, 40, 80)
	got = append(got, collect(t, batches, 40)...)
	stop()
	parkMany(t, second, 80, 120)
	wantEachOnce(t, append(got, collect(t, batches, 40)...), 120)
}

// crash has an owner die with a message in flight, and returns the next one.
func crash(t *suite) (core.Store, *owner) {
	if t.Kill == nil {
		t.Skip("an instance can't be killed")
	}
	first, second := t.openTwo(1)
	park(t, first, message("in-hand"), message("waiting"), message("later", later()))
	o := own(t, first, Sink, 1)
	o.awaitAll(2)
	o.settle()
	wantIDs(t, o.take(1).Messages, "in-hand")
	t.Kill(t.T, first)
	o.stop()
	return second, own(t, second, Sink, 1)
}

func crashCounts(t *suite) {
	store, o := crash(t)
	batch := o.await(5)
	wantIDs(t, batch.Messages, "in-hand", "waiting")
	lost, other := batch.Messages[0], batch.Messages[1]
	if lost.Attempt != 2 || !lost.CutOff {
		t.Errorf("was in flight: attempt %d, cut off %t", lost.Attempt, lost.CutOff)
	}
	if other.Attempt != 1 || other.CutOff {
		t.Errorf("was waiting: attempt %d, cut off %t", other.Attempt, other.CutOff)
	}
	o.settle()
	entry := get(t, store, ref("in-hand"))
	if entry.State != core.Retrying || entry.Reason != "crashed" || entry.Error != "attempt was cut off" || !entry.MayHaveBeenSent {
		t.Errorf("entry %+v", entry)
	}
	if m := o.take(1).Messages[0]; m.ID != "in-hand" || m.Attempt != 2 || !m.CutOff {
		t.Errorf("taken again: %s, attempt %d, cut off %t; want in-hand, 2, true", m.ID, m.Attempt, m.CutOff)
	}
}

func crashIsOver(t *suite) {
	_, o := crash(t)
	wantIDs(t, o.await(1).Messages, "in-hand")
	o.settle(retrying("in-hand", 0, 2))
	for _, m := range o.awaitAll(2).Messages {
		if m.CutOff {
			t.Errorf("%s is still called cut off", m.ID)
		}
		if m.ID == "in-hand" && m.Attempt != 3 {
			t.Errorf("attempt %d, want 3", m.Attempt)
		}
	}
}
