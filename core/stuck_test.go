package core_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// unheard is a bucket whose settles do not reach the store.
type unheard struct{ core.Bucket }

func (unheard) Settle(context.Context, ...core.Outcome) error { return core.ErrUnavailable }

// A sink that does not return from a call gets no second one for the bucket, also
// if the store could not be told of the first, and the work is run again.
func TestStuckSinkIsNotCalledAgainAfterAFailedSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := memstore.New(memstore.Config{Buckets: 1}), &scripted{began: time.Now()}
		d := &core.Dispatcher{Name: "orders", Sink: sink, Timeout: time.Second, Retry: core.RetryPolicy{Jitter: -1}}
		sink.answers(func([]*core.Message) error { time.Sleep(time.Minute); return nil })
		in := core.NewBridge(store, core.Options{}, d).Interceptor
		if r := in.Accept(t.Context(), message("a", 0))[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		var runs atomic.Int64
		go func() {
			served <- store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error {
				if runs.Add(1) == 1 {
					b = unheard{b}
				}
				return d.Run(ctx, b)
			})
		}()
		time.Sleep(55 * time.Second)
		if _, calls := sink.seen(); calls != 1 {
			t.Errorf("%d calls while the first is stuck, want 1", calls)
		}
		sink.answers(nil)
		time.Sleep(time.Minute)
		arrived, calls := sink.seen()
		if calls != 2 || len(arrived) != 2 || arrived[1].attempt != 2 || runs.Load() != 2 {
			t.Errorf("%d calls in %d runs, and %v arrived; want a second attempt in a second run", calls, runs.Load(), arrived)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
