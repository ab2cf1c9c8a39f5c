package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// slowReply is a bucket whose Take is answered long after the store looked.
type slowReply struct {
	core.Bucket
	way      time.Duration
	noAnchor bool // the store does not tell when it looked
}

func (b slowReply) Take(ctx context.Context, limit int) (core.Batch, error) {
	batch, err := b.Bucket.Take(ctx, limit)
	time.Sleep(b.way)
	if b.noAnchor {
		batch.Local = time.Time{}
	}
	return batch, err
}

// Lateness ends when the broker has confirmed: the way of the reply to Take and
// its decoding are a part of it.
func TestLatenessHasTheReplysWay(t *testing.T) {
	const way, sending = 50 * time.Millisecond, 20 * time.Millisecond
	for name, noAnchor := range map[string]bool{"the store tells when it looked": false, "the store does not tell": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := memstore.New(memstore.Config{Buckets: 1}), &scripted{began: time.Now()}
				sink.answers(func([]*core.Message) error { time.Sleep(sending); return nil })
				d := &core.Dispatcher{Name: "orders", Sink: sink}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error)
				go func() {
					served <- store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error {
						return d.Run(ctx, slowReply{b, way, noAnchor})
					})
				}()
				in := core.NewBridge(store, core.Options{}, d).Interceptor
				time.Sleep(time.Second)
				due := time.Now().Add(time.Second + 700*time.Microsecond) // rounded up to whole ms
				if r := in.Accept(t.Context(), message("a", 0, func(m *core.Message) { m.DeliverAt = due }))[0]; r.Err != nil {
					t.Fatal(r.Err)
				}
				time.Sleep(2 * time.Second)
				if got := in.Local().Sinks[0].Last5m; got.LatenessMax < way+sending || got.LatenessMax > (way+sending)*107/100 {
					t.Errorf("lateness is %s, want %s to within 7 %%", got.LatenessMax, way+sending)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What was late counts for five minutes: p99 and the maximum recover from an outage.
func TestLatenessRecovers(t *testing.T) {
	dispatchers := orders(nil)
	inWorld(t, dispatchers, func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error { return core.Classify(core.Blocked, errBroker) })
		w.accept(message("late", 0))
		time.Sleep(time.Minute)
		sink.answers(nil)
		time.Sleep(2 * time.Second)
		ended := time.Now()
		for minute := range 10 {
			before := w.in.Local().Sinks[0].Last5m
			if late := before.LatenessP99 >= time.Minute && before.LatenessMax >= time.Minute; time.Since(ended) < 4*time.Minute && !late {
				t.Errorf("%s after the outage lateness is %s to %s, and the outage is forgotten already", time.Since(ended), before.LatenessP99, before.LatenessMax)
			}
			if time.Since(ended) >= 5*time.Minute && before.LatenessMax > time.Second {
				t.Errorf("%s after the outage lateness is still up to %s", time.Since(ended), before.LatenessMax)
			}
			w.accept(message(string(rune('a'+minute)), 0))
			time.Sleep(30 * time.Second)
		}
		time.Sleep(time.Hour)
		if got := w.in.Local().Sinks[0]; got.Last5m != (core.Recent{}) || got.Totals.Delivered != 11 {
			t.Errorf("an hour after the last message: %+v", got)
		}
	})
}

// A sink that goes on is not paused since anything.
func TestPausedSinceEndsWithThePause(t *testing.T) {
	dispatchers := orders(nil)
	inWorld(t, dispatchers, func(w *world) {
		d, sink := dispatchers[0], w.sinks["orders"]
		sink.answers(func([]*core.Message) error { return core.Classify(core.Blocked, errBroker) })
		began := time.Now()
		w.accept(message("a", 0))
		time.Sleep(time.Second)
		if reason, since := d.Paused(); reason == "" || since.Sub(began).Abs() > 10*time.Millisecond {
			t.Errorf("paused for %q since %s, want since %s", reason, since, began)
		}
		sink.answers(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if reason, since := d.Paused(); reason != "" || !since.IsZero() {
			t.Errorf("paused for %q since %s after the resume", reason, since)
		}
	})
}
