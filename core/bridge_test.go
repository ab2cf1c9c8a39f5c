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

// lateStore reports parks after Close.
type lateStore struct {
	core.Store
	t      *testing.T
	closed atomic.Bool
}

func (s *lateStore) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if s.closed.Load() {
		s.t.Errorf("%d messages parked after Close", len(messages))
	}
	return s.Store.Park(ctx, messages...)
}

func (s *lateStore) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *lateStore) Unwrap() core.Store { return s.Store }

// runBridge runs b and returns how it is ended, and its error had.
func runBridge(t *testing.T, b *core.Bridge, inputs ...core.Input) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, inputs...) }()
	<-b.Started()
	return func() error { cancel(); return <-ended }
}

// What is accepted before Run and during it is delivered; after it nothing is
// accepted or changed, though a store in memory could.
func TestAcceptBeforeDuringAndAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{began: time.Now()}
		b := core.NewBridge(&lateStore{Store: memstore.New(memstore.Config{}), t: t}, core.Options{}, &core.Dispatcher{Name: "orders", Sink: sink})
		accept := func(id string, delay time.Duration) core.Receipt {
			return b.Accept(t.Context(), message(id, delay))[0]
		}
		if r := accept("before", 0); r.Err != nil {
			t.Fatal(r.Err)
		}
		time.Sleep(time.Second)
		if arrived, _ := sink.seen(); len(arrived) > 0 {
			t.Errorf("%v before Run", arrived)
		}
		stop := runBridge(t, b)
		if r := accept("during", time.Second); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := accept("later", time.Hour); r.Err != nil {
			t.Fatal(r.Err)
		}
		time.Sleep(2 * time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if arrived, _ := sink.seen(); len(arrived) != 2 || arrived[0].id != "before" || arrived[1].id != "during" {
			t.Errorf("the sink saw %v", arrived)
		}
		ended := map[string]error{"accept": accept("after", 0).Err, "accept again": accept("later", time.Hour).Err, "ready": b.Ready(t.Context())}
		_, ended["cancel"] = b.Cancel(t.Context(), core.Ref{ID: "later"})
		_, ended["deliver now"] = b.DeliverNow(t.Context(), core.Ref{ID: "later"})
		_, ended["redrive"] = b.Redrive(t.Context(), core.Ref{ID: "later"})
		for what, err := range ended {
			if !errors.Is(err, core.ErrEnded) || !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "the bridge has ended") {
				t.Errorf("%s after the end: %v", what, err)
			}
		}
		if _, err := b.Get(t.Context(), core.Ref{ID: "after"}); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("what was refused: %v", err)
		}
		if stats, err := b.Stats(t.Context(), ""); err != nil || stats.Sinks[0].Scheduled != 1 {
			t.Errorf("what is lost with the process: %+v, %v", stats, err)
		}
	})
}

func TestOnlySinkNeedsNoName(t *testing.T) {
	unnamed := func() *core.Message { return &core.Message{ID: "a", Topic: "t", Delay: time.Hour} }
	one := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "orders"})
	if r := one.Accept(t.Context(), unnamed())[0]; r.Err != nil || r.Sink != "orders" {
		t.Errorf("one sink: %+v", r)
	}
	two := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "orders"}, &core.Dispatcher{Name: "parcels"})
	r := two.Accept(t.Context(), unnamed())[0]
	if invalid, ok := errors.AsType[*core.InvalidError](r.Err); !ok || invalid.Field != "sink" {
		t.Errorf("two sinks: %+v", r)
	}
	if _, err := two.Get(t.Context(), core.Ref{ID: "a"}); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("get what was refused: %v", err)
	}
}

func TestStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "orders", Sink: &scripted{}})
		select {
		case <-b.Started():
			t.Error("started before Run")
		default:
		}
		var listening atomic.Bool
		stop := runBridge(t, b, core.Input{Name: "listener", Run: func(ctx context.Context) error {
			listening.Store(true)
			<-ctx.Done()
			return nil
		}})
		synctest.Wait()
		if !listening.Load() {
			t.Error("started without its listener")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A second Run changes nothing, neither beside the first nor after it.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &scripted{began: time.Now()}
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "orders", Sink: sink})
		stop := runBridge(t, b)
		again := func() {
			t.Helper()
			if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has been run already") {
				t.Errorf("second Run: %v", err)
			}
		}
		again()
		if r := b.Accept(t.Context(), message("a", time.Second))[0]; r.Err != nil || sink.closed {
			t.Fatalf("after a second Run: %+v, sink closed %t", r, sink.closed)
		}
		time.Sleep(2 * time.Second)
		if arrived, _ := sink.seen(); len(arrived) != 1 {
			t.Errorf("after a second Run the sink saw %v", arrived)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		again()
	})
}

// unclosable fails to close.
type unclosable struct {
	scripted
	err error
}

func (u *unclosable) Close() error { return errors.Join(u.scripted.Close(), u.err) }

func TestSinkThatFailsToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		first, second := &unclosable{err: boom}, &scripted{}
		store := &lateStore{Store: memstore.New(memstore.Config{}), t: t}
		b := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "first", Sink: first}, &core.Dispatcher{Name: "second", Sink: second})
		if err := runBridge(t, b)(); !errors.Is(err, boom) || err.Error() != "close sink first: boom" {
			t.Errorf("got %v", err)
		}
		if !second.closed || !store.closed.Load() {
			t.Errorf("the second sink is closed: %t, the store: %t", second.closed, store.closed.Load())
		}
	})
}

func TestRunRefusesSinks(t *testing.T) {
	for want, sinks := range map[string][]*core.Dispatcher{
		"sink a: two sinks have this name; give each its own": {{Name: "a", Sink: &scripted{}}, {Name: "a", Sink: &scripted{}}},
		`sink "a b": sink: may hold`:                          {{Name: "a b", Sink: &scripted{}}},
		"sink a: the Dispatcher has no Sink; set it":          {{Name: "a"}, {Name: "b", Sink: &scripted{}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &lateStore{Store: memstore.New(memstore.Config{}), t: t}
			b := core.NewBridge(store, core.Options{}, sinks...)
			if err := b.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			<-b.Started() // or who waits would wait forever
			last := sinks[len(sinks)-1].Sink.(*scripted)
			if err := b.Ready(t.Context()); !errors.Is(err, core.ErrEnded) || !last.closed || !store.closed.Load() {
				t.Errorf("ready: %v; a sink is closed: %t, the store: %t", err, last.closed, store.closed.Load())
			}
		})
	}
}

// However accepts and the end of Run fall together, what was accepted is delivered
// once or still in the store, what was refused is neither, and nobody parks after that.
func TestAcceptRacesWithTheEnd(t *testing.T) {
	const rounds, producers = 100, 8
	for round := range rounds {
		sink, store := &scripted{began: time.Now()}, &lateStore{Store: memstore.New(memstore.Config{}), t: t}
		b := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "orders", Sink: sink})
		stop := runBridge(t, b)
		var group sync.WaitGroup
		var count atomic.Int64
		var accepted sync.Map // id: whether
		enough := make(chan struct{})
		for p := range producers {
			group.Go(func() {
				for n := 0; ; n++ {
					m := message(fmt.Sprintf("%d-%d", p, n), 0)
					if n%3 == 0 {
						m.Delay = time.Hour
					}
					r := b.Accept(t.Context(), m)[0]
					accepted.Store(r.ID, r.Err == nil)
					if count.Add(1) == int64(10*round) {
						close(enough)
					}
					if errors.Is(r.Err, core.ErrEnded) {
						return
					}
					if r.Err != nil {
						t.Errorf("%s: %v", r.ID, r.Err)
					}
				}
			})
		}
		if round > 0 {
			<-enough
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if r := b.Accept(t.Context(), message("after", 0))[0]; !errors.Is(r.Err, core.ErrEnded) {
			t.Fatalf("after the end: %v", r.Err) // the producers would not end
		}
		group.Wait()
		delivered := make(map[string]int)
		arrived, _ := sink.seen()
		for _, a := range arrived {
			delivered[a.id]++
		}
		accepted.Range(func(id, ok any) bool {
			entry, err := b.Get(t.Context(), core.Ref{ID: id.(string)})
			switch n := delivered[id.(string)]; {
			case ok == false:
				if n > 0 || !errors.Is(err, core.ErrNotFound) {
					t.Errorf("%s was refused, arrived %d times and is %s", id, n, entry.State)
				}
			case n == 1 && entry.State == core.Delivered, n == 0 && entry.State == core.Scheduled && !entry.MayHaveBeenSent:
			default:
				t.Errorf("%s was accepted, arrived %d times and is %s: %v", id, n, entry.State, err)
			}
			return true
		})
	}
}

// Run waits for a check that is in progress, so that a sink is not closed under it, but
// not for ever; what was checked is not parked any more.
func TestEndDuringACheck(t *testing.T) {
	for name, test := range map[string]struct {
		takes, ends time.Duration
		complains   bool
	}{
		"that ends":         {5 * time.Second, 5 * time.Second, false},
		"that does not end": {time.Minute, 10 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &checking{Sink: &scripted{}, check: func(context.Context, []*core.Message) error { time.Sleep(test.takes); return nil }}
				b := core.NewBridge(&lateStore{Store: memstore.New(memstore.Config{}), t: t}, core.Options{StopTimeout: 10 * time.Second},
					&core.Dispatcher{Name: "orders", Sink: sink})
				stop := runBridge(t, b)
				answer := make(chan core.Receipt)
				go func() { answer <- b.Accept(t.Context(), message("a", 0))[0] }()
				synctest.Wait()
				began := time.Now()
				err := stop()
				if took := time.Since(began); took != test.ends || (err != nil) != test.complains ||
					err != nil && !strings.Contains(err.Error(), "did not end within 10s") {
					t.Errorf("ended after %s with %v", took, err)
				}
				if r := <-answer; !errors.Is(r.Err, core.ErrEnded) {
					t.Errorf("accept: %+v", r)
				}
			})
		})
	}
}
