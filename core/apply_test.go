package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// tally is a sink that notes what each message became, and is closed.
type tally struct {
	t       *testing.T
	arrived *sync.Map // id → times
	running atomic.Int64
	closed  atomic.Bool
	takes   time.Duration
}

func (s *tally) Deliver(_ context.Context, batch []*core.Message) error {
	if s.closed.Load() {
		s.t.Errorf("%d messages were given to a closed sink", len(batch))
	}
	s.running.Add(1)
	defer s.running.Add(-1)
	time.Sleep(s.takes)
	for _, m := range batch {
		if m.Attempt != 1 {
			s.t.Errorf("%s: attempt %d", m.ID, m.Attempt)
		}
		times, _ := s.arrived.LoadOrStore(m.ID, new(atomic.Int64))
		times.(*atomic.Int64).Add(1)
	}
	return nil
}

func (s *tally) Close() error {
	if n := s.running.Load(); n > 0 {
		s.t.Errorf("closed during %d deliveries", n)
	}
	s.closed.Store(true)
	return nil
}

// Sinks and settings are replaced again and again while messages are accepted and
// delivered: each is delivered once, at its first attempt and in time, and no sink is
// used when it is closed.
func TestApplyDuringABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived sync.Map
		made := func() *tally { return &tally{t: t, arrived: &arrived, takes: 7 * time.Millisecond} }
		var late atomic.Int64
		observer := core.Observer{Delivered: func(d core.Delivery) {
			for _, m := range d.Messages {
				if d.Lateness(m) > 50*time.Millisecond {
					late.Add(1)
				}
			}
		}}
		sink := made()
		b := core.NewBridge(memstore.New(memstore.Config{Buckets: 4}), core.Options{Observer: observer}, &core.Dispatcher{Name: "orders", Sink: sink})
		stop := runBridge(t, b)
		const messages, reloads = 2000, 40
		var producers sync.WaitGroup
		for p := range 4 {
			producers.Go(func() {
				for n := range messages / 4 {
					if r := b.Accept(t.Context(), message(fmt.Sprint(p, ":", n), time.Duration(n%40)*time.Millisecond))[0]; r.Err != nil {
						t.Errorf("%s: %v", r.ID, r.Err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for n := range reloads {
			time.Sleep(11 * time.Millisecond)
			if n%3 > 0 {
				sink = made()
			}
			if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "orders", Sink: sink, MaxBatch: 1 + n}); err != nil {
				t.Error(err)
			}
		}
		producers.Wait()
		time.Sleep(time.Second)
		count := 0
		arrived.Range(func(id, times any) bool {
			count++
			if n := times.(*atomic.Int64).Load(); n != 1 {
				t.Errorf("%s arrived %d times", id, n)
			}
			return true
		})
		if did := b.Local().Sinks[0].Totals; count != messages || did.Delivered != messages || did.Accepted != messages {
			t.Errorf("%d arrived, counts are %+v", count, did)
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d were late", n)
		}
		if err := stop(); err != nil || !sink.closed.Load() {
			t.Errorf("ended with %v, closed %t", err, sink.closed.Load())
		}
	})
}

// applied gives a running bridge with one sink to test, and ends it.
func applied(t *testing.T, d *core.Dispatcher, test func(t *testing.T, b *core.Bridge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := core.NewBridge(memstore.New(memstore.Config{Buckets: 2}), core.Options{StopTimeout: 10 * time.Second}, d)
		stop := runBridge(t, b)
		test(t, b)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// New settings of the same Sink hold for the next attempt; the Sink is not closed.
func TestApplySettings(t *testing.T) {
	sink := &scripted{}
	retry := core.RetryPolicy{Initial: time.Hour, Jitter: -1}
	applied(t, &core.Dispatcher{Name: "orders", Sink: sink, Retry: retry}, func(t *testing.T, b *core.Bridge) {
		sink.answers(failing(errBroker))
		b.Accept(t.Context(), message("before", 0))
		time.Sleep(time.Second)
		retry.Initial = time.Minute
		if err := b.Apply(core.Limits{MaxBody: 3}, &core.Dispatcher{Name: "orders", Sink: sink, Retry: retry}); err != nil {
			t.Error(err)
		}
		b.Accept(t.Context(), message("after", 0))
		time.Sleep(time.Second)
		now := time.Now()
		for id, want := range map[string]time.Duration{"before": time.Hour - 2*time.Second, "after": time.Minute - time.Second} {
			if e, err := b.Get(t.Context(), core.Ref{ID: id}); err != nil || e.Due.Sub(now) != want {
				t.Errorf("%s is due in %s (%v), want %s", id, e.Due.Sub(now), err, want)
			}
		}
		large := message("large", 0, func(m *core.Message) { m.Body = []byte("four") })
		if r := b.Accept(t.Context(), large)[0]; r.Err == nil || b.Limits().MaxBody != 3 {
			t.Error("accepted beyond the new limit")
		}
		if did := b.Local().Sinks[0].Totals; did.Retried != 2 || sink.closed {
			t.Errorf("counts %+v, closed %t", did, sink.closed)
		}
	})
}

// The messages of a removed sink stay parked, also those in flight that fail, and can't
// be reached until it is back.
func TestRemovedAndBack(t *testing.T) {
	first, second, other := &scripted{}, &scripted{}, &scripted{}
	applied(t, &core.Dispatcher{Name: "orders", Sink: first}, func(t *testing.T, b *core.Bridge) {
		first.answers(func(batch []*core.Message) error { time.Sleep(5 * time.Second); return failing(errBroker)(batch) })
		b.Accept(t.Context(), message("in_flight", 0), message("waiting", time.Minute))
		time.Sleep(time.Second)
		began := time.Now()
		if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "parcels", Sink: other}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 4*time.Second || !first.closed {
			t.Errorf("took %s, closed %t", took, first.closed)
		}
		ref := core.Ref{ID: "waiting", Sink: "orders"}
		_, cancelErr := b.Cancel(t.Context(), ref)
		_, getErr := b.Get(t.Context(), ref)
		_, listErr := b.List(t.Context(), core.Query{Sinks: []string{"orders"}, Limit: 1})
		for what, err := range map[string]error{"accept": b.Accept(t.Context(), message("late", 0))[0].Err, "cancel": cancelErr, "get": getErr, "list": listErr} {
			if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "sink" {
				t.Errorf("%s at a sink that is not there: %v", what, err)
			}
		}
		if r := b.Accept(t.Context(), &core.Message{ID: "unnamed", Topic: "t"})[0]; r.Err != nil || r.Sink != "parcels" {
			t.Errorf("the only sink needs a name: %+v", r)
		}
		time.Sleep(time.Hour)
		orders := &core.Dispatcher{Name: "orders", Sink: second}
		if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "parcels", Sink: other}, orders); err != nil {
			t.Error(err)
		}
		if r := b.Accept(t.Context(), &core.Message{ID: "unnamed2", Topic: "t"})[0]; r.Err == nil {
			t.Error("one of two sinks needs no name")
		}
		time.Sleep(time.Second)
		got, _ := second.seen()
		attempts := make(map[string]int)
		for _, a := range got {
			attempts[a.id] += a.attempt
		}
		if len(got) != 2 || attempts["in_flight"] != 2 || attempts["waiting"] != 1 {
			t.Errorf("when the sink was back it saw %v", got)
		}
		if err := b.Apply(core.Limits{}, orders); err != nil || !other.closed || second.closed {
			t.Errorf("%v, closed %t and %t", err, other.closed, second.closed)
		}
	})
}

// What can't be applied changes nothing.
func TestApplyRefused(t *testing.T) {
	sink, unused := &scripted{}, &scripted{}
	first := &core.Dispatcher{Name: "orders", Sink: sink}
	applied(t, first, func(t *testing.T, b *core.Bridge) {
		second := &core.Dispatcher{Name: "orders", Sink: sink}
		if err := b.Apply(core.Limits{}, second); err != nil {
			t.Error(err)
		}
		for text, sinks := range map[string][]*core.Dispatcher{
			"was in use before": {first},
			"two sinks":         {{Name: "a", Sink: unused}, {Name: "a", Sink: unused}},
			"has no Sink":       {{Name: "a"}},
			"begins with":       {{Name: "-", Sink: unused}},
		} {
			if err := b.Apply(core.Limits{MaxBody: 1}, sinks...); err == nil || errors.Is(err, core.ErrNotStopped) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", text, err)
			}
		}
		if b.Limits().MaxBody == 1 || strings.Join(b.Sinks(), ",") != "orders" || sink.closed || unused.closed {
			t.Error("something has changed")
		}
	})
}

// Before Run, changes are made at once; after its end, none is.
func TestApplyBeforeAndAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &scripted{}, &scripted{}
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "old", Sink: first})
		var started atomic.Int64
		listen := func(ctx context.Context) error { started.Add(1); <-ctx.Done(); return nil }
		err := errors.Join(b.Apply(core.Limits{}, &core.Dispatcher{Name: "orders", Sink: second}),
			b.StartInputs(core.Input{Name: "a", Run: listen}, core.Input{Name: "b", Run: listen}), b.StopInputs("a"))
		if err != nil || !first.closed {
			t.Errorf("%v, closed %t", err, first.closed)
		}
		stop := runBridge(t, b, core.Input{Name: "b", Run: listen})
		b.Accept(t.Context(), message("a", 0))
		synctest.Wait()
		if got, _ := second.seen(); len(got) != 1 || started.Load() != 2 {
			t.Errorf("the sink saw %v, %d inputs run", got, started.Load())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		third := &scripted{}
		if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "third", Sink: third}); !errors.Is(err, core.ErrEnded) || third.closed {
			t.Errorf("after the end: %v", err)
		}
		if err := b.StartInputs(core.Input{Name: "c", Run: listen}); !errors.Is(err, core.ErrEnded) || started.Load() != 2 {
			t.Errorf("after the end: %v", err)
		}
	})
}

// hanging is a sink whose Deliver and Close wait.
type hanging struct{ deliver, close chan struct{} }

func (s hanging) Deliver(context.Context, []*core.Message) error {
	<-s.deliver
	return core.Classify(core.Unknown, errBroker)
}
func (s hanging) Close() error { <-s.close; return errBroker }

// A sink that hangs holds up neither the change nor the sinks that come.
func TestApplyWithAHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := hanging{make(chan struct{}), make(chan struct{})}, &scripted{}
		b := core.NewBridge(memstore.New(memstore.Config{Buckets: 1}), core.Options{StopTimeout: 10 * time.Second}, &core.Dispatcher{Name: "orders", Sink: old, Timeout: time.Hour})
		stop := runBridge(t, b)
		b.Accept(t.Context(), message("a", 0))
		synctest.Wait()
		began := time.Now()
		go func() { time.Sleep(15 * time.Second); close(old.deliver) }()
		err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "orders", Sink: next}, &core.Dispatcher{Name: "parcels", Sink: next})
		if took := time.Since(began); took != 20*time.Second || !errors.Is(err, core.ErrNotStopped) ||
			!strings.Contains(err.Error(), "orders did not finish") || !strings.Contains(err.Error(), "sinks did not close") {
			t.Errorf("after %s: %v", took, err)
		}
		time.Sleep(time.Minute)
		if got, _ := next.seen(); len(got) != 1 || got[0].attempt != 2 {
			t.Errorf("the next sink saw %v", got)
		}
		if err := b.Apply(core.Limits{}); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		close(old.close)
	})
}

// A removed sink that comes back while its store call has not ended is served when it has.
func TestRemovedWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := hanging{make(chan struct{}), make(chan struct{})}, &scripted{}
		close(old.close)
		b := core.NewBridge(memstore.New(memstore.Config{Buckets: 1}), core.Options{StopTimeout: 10 * time.Second}, &core.Dispatcher{Name: "orders", Sink: old, Timeout: time.Hour})
		stop := runBridge(t, b)
		b.Accept(t.Context(), message("a", 0))
		synctest.Wait()
		if err := b.Apply(core.Limits{}); !errors.Is(err, core.ErrNotStopped) || !errors.Is(err, errBroker) {
			t.Errorf("removed: %v", err)
		}
		if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "orders", Sink: next}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if got, _ := next.seen(); len(got) > 0 {
			t.Errorf("delivered twice at a time: %v", got)
		}
		close(old.deliver)
		time.Sleep(time.Minute)
		if got, _ := next.seen(); len(got) != 1 {
			t.Errorf("the next sink saw %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A change waits for the calls that began before it, so that no sink is closed under a
// check, and what was checked by a sink that is gone is not parked.
func TestApplyDuringACheck(t *testing.T) {
	sink := &checking{Sink: &scripted{}, check: func(context.Context, []*core.Message) error { time.Sleep(5 * time.Second); return nil }}
	applied(t, &core.Dispatcher{Name: "orders", Sink: sink}, func(t *testing.T, b *core.Bridge) {
		answer := make(chan core.Receipt, 1)
		go func() { answer <- b.Accept(t.Context(), message("a", 0))[0] }()
		synctest.Wait()
		began := time.Now()
		if err := b.Apply(core.Limits{}, &core.Dispatcher{Name: "parcels", Sink: &scripted{}}); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if r := <-answer; r.Err == nil || !strings.Contains(r.Err.Error(), "no sink has the name") {
			t.Errorf("%+v", r)
		}
	})
}

// The end of Run does not wait for a change that waits.
func TestEndDuringApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &scripted{}, &scripted{}
		first.answers(func([]*core.Message) error { time.Sleep(3 * time.Second); return nil })
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{StopTimeout: 10 * time.Second}, &core.Dispatcher{Name: "orders", Sink: first})
		stop := runBridge(t, b)
		b.Accept(t.Context(), message("a", 0))
		synctest.Wait()
		changed := make(chan error, 1)
		go func() { changed <- b.Apply(core.Limits{}, &core.Dispatcher{Name: "orders", Sink: second}) }()
		synctest.Wait()
		again := make(chan error, 1)
		go func() { again <- b.Apply(core.Limits{}) }()
		synctest.Wait()
		began := time.Now()
		if err := stop(); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("ended after %s with %v", time.Since(began), err)
		}
		if err := <-changed; !errors.Is(err, core.ErrNotStopped) {
			t.Errorf("the change in progress: %v", err)
		}
		if err := <-again; !errors.Is(err, core.ErrEnded) {
			t.Errorf("the next: %v", err)
		}
		if got, _ := first.seen(); len(got) != 1 || !first.closed || !second.closed {
			t.Errorf("%v, closed %t and %t", got, first.closed, second.closed)
		}
	})
}

// Inputs come and go; one that was stopped ends nothing, whatever it returns, and the next
// of its name waits for it.
func TestInputsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{StopTimeout: 10 * time.Second}, &core.Dispatcher{Name: "orders", Sink: &scripted{}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		<-b.Started()
		var running atomic.Int64
		input := func(stops time.Duration, err error) core.Input {
			return core.Input{Name: "source", Run: func(ctx context.Context) error {
				if running.Add(1) > 1 {
					t.Error("two run at the same time")
				}
				defer running.Add(-1)
				<-ctx.Done()
				time.Sleep(stops)
				return err
			}}
		}
		if err := b.StartInputs(input(time.Minute, errBroker)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.StopInputs("source", "unknown"); !errors.Is(err, core.ErrNotStopped) || !strings.Contains(err.Error(), "source did not stop") {
			t.Errorf("one that hangs: %v", err)
		}
		_ = b.StartInputs(input(0, errBroker))
		time.Sleep(2 * time.Minute)
		if running.Load() != 1 {
			t.Error("the next does not run")
		}
		if err := b.StopInputs("source"); !errors.Is(err, core.ErrNotStopped) || !errors.Is(err, errBroker) {
			t.Errorf("one that fails to stop: %v", err)
		}
		select {
		case err := <-ended:
			t.Fatalf("the bridge has ended with %v", err)
		default:
		}
		_ = b.StartInputs(core.Input{Name: "source", Run: func(context.Context) error { return errBroker }})
		if err := <-ended; !errors.Is(err, errBroker) {
			t.Errorf("one that fails: %v", err)
		}
	})
}
