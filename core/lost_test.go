package core_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// patientSink answers only when it must.
type patientSink struct{ called chan struct{} }

func (s *patientSink) Deliver(ctx context.Context, _ []*core.Message) error {
	s.called <- struct{}{}
	<-ctx.Done()
	return fmt.Errorf("write: %w", ctx.Err())
}

func (s *patientSink) Close() error { return nil }

// A delivery that was cut short as its bucket was lost tells nothing about the
// sink, whose other buckets go on.
func TestLostBucketDoesNotPauseTheSink(t *testing.T) {
	for name, test := range map[string]struct {
		lose time.Duration // after the call began; the sink has 10 s
		want bool
	}{"lost": {time.Second, false}, "not answered in time": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := memstore.New(memstore.Config{Buckets: 1}), &patientSink{make(chan struct{}, 1)}
				d := &core.Dispatcher{Name: "orders", Sink: sink, Timeout: 10 * time.Second}
				in := core.NewBridge(store, core.Options{}, d).Interceptor
				if r := in.Accept(t.Context(), message("a", 0))[0]; r.Err != nil {
					t.Fatal(r.Err)
				}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error)
				go func() {
					served <- store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error {
						ctx, lose := context.WithCancelCause(ctx)
						defer time.AfterFunc(test.lose, func() { lose(core.ErrLeaseLost) }).Stop()
						return d.Run(ctx, b)
					})
				}()
				<-sink.called
				time.Sleep(11 * time.Second)
				reason, _ := d.Paused()
				if paused := reason != ""; paused != test.want {
					t.Errorf("the sink is paused for %q", reason)
				}
				stop()
				<-served
			})
		})
	}
}
