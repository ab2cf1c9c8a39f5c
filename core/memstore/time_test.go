package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// What the store does by the clock, in virtual time.

func message(id string) *core.Message {
	return &core.Message{ID: id, Sink: "orders", Topic: "t"}
}

func park(t *testing.T, store *memstore.Store, m *core.Message) core.Receipt {
	t.Helper()
	receipt := store.Park(t.Context(), m)[0]
	if receipt.Err != nil {
		t.Fatal(receipt.Err)
	}
	return receipt
}

// work returns a work that delivers everything and notes when.
func work(deliveredAt map[string]time.Time) func(context.Context, core.Bucket) error {
	return func(ctx context.Context, b core.Bucket) error {
		for {
			batch, err := b.Take(ctx, core.MaxTake)
			if err != nil {
				return err
			}
			var outcomes []core.Outcome
			for _, m := range batch.Messages {
				deliveredAt[m.ID] = time.Now()
				outcomes = append(outcomes, core.Outcome{ID: m.ID, State: core.Delivered})
			}
			if err := b.Settle(ctx, outcomes...); err != nil {
				return err
			}
			if err := b.Wait(ctx, batch.Next); err != nil {
				return nil
			}
		}
	}
}

func TestDueToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, deliveredAt := memstore.New(memstore.Config{Buckets: 1, Guard: 24 * time.Hour}), make(map[string]time.Time)
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		due := map[string]time.Duration{"first": 0, "soon": time.Millisecond, "hour": time.Hour, "month": 30 * 24 * time.Hour}
		for id, delay := range due {
			m := message(id)
			m.Delay = delay
			park(t, store, m)
		}
		time.AfterFunc(31*24*time.Hour, stop)
		if err := store.Serve(ctx, "orders", work(deliveredAt)); err != nil {
			t.Fatal(err)
		}
		for id, delay := range due {
			if late := deliveredAt[id].Sub(start.Add(delay)); late != 0 {
				t.Errorf("%s was delivered %s late", id, late)
			}
		}
	})
}

func TestDelayFromWithinAMillisecondIsNotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Microsecond)
		m := message("m")
		m.Delay = 10 * time.Millisecond
		start := time.Now()
		receipt := park(t, memstore.New(memstore.Config{}), m)
		if got := receipt.DeliverAt.Sub(start); got != 10*time.Millisecond+700*time.Microsecond {
			t.Errorf("due %s after it was accepted, want 10.7ms", got)
		}
	})
}

func TestDedupeWindow(t *testing.T) {
	tests := []struct {
		name   string
		config map[string]time.Duration
		window time.Duration
	}{
		{"default", nil, 2 * time.Minute},
		{"other sink's", map[string]time.Duration{"parcels": time.Hour}, 2 * time.Minute},
		{"its own", map[string]time.Duration{"orders": time.Hour}, time.Hour},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(memstore.Config{DedupeWindow: test.config})
				park(t, store, message("m"))
				if _, err := store.Cancel(t.Context(), core.Ref{ID: "m", Sink: "orders"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.window - time.Millisecond)
				if r := store.Park(t.Context(), message("m"))[0]; !errors.Is(r.Err, core.ErrCancelled) || r.State != core.Cancelled {
					t.Errorf("just before the end of the window: %+v", r)
				}
				time.Sleep(time.Millisecond)
				if r := park(t, store, message("m")); r.Duplicate {
					t.Errorf("at the end of the window: %+v", r)
				}
			})
		})
	}
}

func TestWaitEndsWithTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{Buckets: 1, Guard: 7 * time.Second})
		start := time.Now()
		err := store.Serve(t.Context(), "orders", func(ctx context.Context, b core.Bucket) error {
			for _, next := range []time.Time{{}, start.Add(time.Hour)} {
				if err := b.Wait(ctx, next); err != nil {
					t.Errorf("wait: %v", err)
				}
			}
			return nil
		})
		if took := time.Since(start); err != nil || took != 14*time.Second {
			t.Errorf("two waits took %s, err %v; want 14s", took, err)
		}
	})
}

func TestFailedWorkRestsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, start, runs := memstore.New(memstore.Config{Buckets: 1}), time.Now(), 0
		err := store.Serve(t.Context(), "orders", func(context.Context, core.Bucket) error {
			if runs++; runs < 4 {
				return errors.New("broken")
			}
			return nil
		})
		if took := time.Since(start); err != nil || took != 3*time.Second {
			t.Errorf("three failures took %s, err %v; want 3s", took, err)
		}
	})
}

func TestSecondServeWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{Buckets: 3})
		working := make(chan struct{}, 6)
		serve := func() (stop func(), ended <-chan struct{}) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				store.Serve(ctx, "orders", func(ctx context.Context, _ core.Bucket) error {
					working <- struct{}{}
					<-ctx.Done()
					return nil
				})
			}()
			synctest.Wait()
			return cancel, done
		}
		stopFirst, firstEnded := serve()
		stopSecond, secondEnded := serve()
		stopThird, thirdEnded := serve()
		if len(working) != 3 {
			t.Errorf("%d works run, want 3", len(working))
		}
		stopThird() // while it waits for its turn
		<-thirdEnded
		stopFirst()
		<-firstEnded
		synctest.Wait()
		if len(working) != 6 {
			t.Errorf("%d works have run after the first Serve ended, want 6", len(working))
		}
		stopSecond()
		<-secondEnded
	})
}
