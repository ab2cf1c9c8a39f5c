package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

func TestDeliversWhenDueAndNeverEarly(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		w.accept(message("late", 2*time.Hour), message("soon", 1500*time.Millisecond), message("now", 0))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		w.wantArrivals("orders", arrival{"now", 1, 0}, arrival{"soon", 1, 1500 * time.Millisecond}, arrival{"late", 1, 2 * time.Hour})
	})
}

func TestRoundsUpToMilliseconds(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		m := message("a", 0)
		m.DeliverAt = w.began.Add(time.Second + time.Microsecond)
		w.accept(m, message("b", time.Second+time.Nanosecond))
		time.Sleep(2 * time.Second)
		w.wantArrivals("orders", arrival{"a", 1, time.Second + time.Millisecond}, arrival{"b", 1, time.Second + time.Millisecond})
	})
}

func TestOrderByPriorityThenDueThenAcceptance(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		due := w.began.Add(time.Second)
		at := func(due time.Time, priority int) func(*core.Message) {
			return func(m *core.Message) { m.DeliverAt, m.Priority = due, priority }
		}
		release := make(chan struct{})
		w.sinks["orders"].answers(func([]*core.Message) error { <-release; return nil })
		w.accept(message("blocker", 0)) // holds the bucket until all others are due
		w.accept(message("z", 0, at(due, 0)), message("y", 0, at(due, 0)), message("x", 0, at(due, 0)),
			message("earlier", 0, at(due.Add(-time.Millisecond), 0)), message("urgent", 0, at(due.Add(time.Second), 9)))
		time.Sleep(3 * time.Second)
		close(release)
		synctest.Wait()
		got, _ := w.sinks["orders"].seen()
		var ids []string
		for _, a := range got {
			ids = append(ids, a.id)
		}
		if want := []string{"blocker", "urgent", "earlier", "z", "y", "x"}; !slices.Equal(ids, want) {
			t.Errorf("order is %v, want %v", ids, want)
		}
	})
}

func TestRetryBacksOffAndIsOverridable(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		w.sinks["orders"].answers(func(batch []*core.Message) error {
			if batch[0].Attempt < 4 {
				return failing(errBroker)(batch)
			}
			return nil
		})
		w.accept(message("own", 0, func(m *core.Message) {
			m.Options = map[string]string{"retry.initial": "10s", "retry.multiplier": "1"}
		}))
		time.Sleep(time.Minute)
		w.accept(message("default", 0))
		time.Sleep(time.Minute)
		w.wantArrivals("orders", arrival{"own", 4, 30 * time.Second}, arrival{"default", 4, time.Minute + 7*time.Second})
		w.wantState("own", core.Delivered, "")
	})
}

func TestAttemptsSpentIsADeadLetterAndRedriveStartsAgain(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(failing(errBroker))
		w.accept(message("a", 0, option("retry.max_attempts", "3")))
		time.Sleep(time.Hour)
		e := w.wantState("a", core.Dead, "attempts")
		if _, calls := sink.seen(); calls != 3 || e.Message.Attempt != 3 || !strings.Contains(e.Error, "broker says no") {
			t.Errorf("after %d calls the dead letter has %d attempts and says %q", calls, e.Message.Attempt, e.Error)
		}
		sink.answers(nil)
		if _, err := w.in.Redrive(t.Context(), core.Ref{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantArrivals("orders", arrival{"a", 1, time.Hour})
	})
}

func TestPermanentIsDeadAtOnceAndSparesNeighbours(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		w.sinks["orders"].answers(func(batch []*core.Message) error {
			results := make(core.BatchError, len(batch))
			for n, m := range batch {
				if m.ID == "bad" {
					results[n] = core.Classify(core.Permanent, errBroker)
				}
			}
			return results
		})
		w.accept(message("a", time.Second), message("bad", time.Second), message("b", time.Second))
		time.Sleep(2 * time.Second)
		w.wantArrivals("orders", arrival{"a", 1, time.Second}, arrival{"b", 1, time.Second})
		w.wantState("bad", core.Dead, "permanent")
	})
}

func TestExpiredIsNeverDeliveredLate(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error { return core.Classify(core.Blocked, errBroker) })
		w.accept(message("blocked", 0))
		w.accept(message("short", time.Second, func(m *core.Message) { m.TTL = 2 * time.Second }), message("long", time.Second))
		time.Sleep(10 * time.Second)
		sink.answers(nil)
		time.Sleep(2 * time.Second)
		w.wantState("short", core.Expired, "expired")
		w.wantState("long", core.Delivered, "")
	})
}

func TestSinkDownKeepsMessagesParkedAndProbesOnceASecond(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error { return errBroker })
		for n := range 50 {
			w.accept(message(fmt.Sprint("m", n), time.Second))
		}
		time.Sleep(10*time.Minute + 600*time.Millisecond)
		arrived, calls := sink.seen()
		if len(arrived) != 0 || calls < 590 || calls > 604 {
			t.Errorf("%d arrived, %d calls in ten minutes, want none and about 600", len(arrived), calls)
		}
		w.wantState("m0", core.Scheduled, "")
		sink.answers(nil)
		time.Sleep(1100 * time.Millisecond)
		arrived, _ = sink.seen()
		if len(arrived) != 50 || arrived[0].attempt != 1 {
			t.Errorf("%d of 50 arrived within a probe of the recovery, the first with attempt %d, want 1", len(arrived), arrived[0].attempt)
		}
	})
}

// TestBlockedForAWhile: trouble of the sink with a time is left alone until then, and costs no
// attempt.
func TestBlockedForAWhile(t *testing.T) {
	for _, class := range []core.Class{core.Blocked, core.Retry} {
		inWorld(t, orders(nil), func(w *world) {
			sink, until := w.sinks["orders"], time.Now().Add(10*time.Minute)
			sink.answers(func([]*core.Message) error {
				if left := time.Until(until); left > 0 {
					return &core.SinkError{Class: class, After: left, Err: errBroker}
				}
				return nil
			})
			for n := range 50 {
				w.accept(message(fmt.Sprint("m", n), time.Second))
			}
			time.Sleep(9 * time.Minute)
			if arrived, calls := sink.seen(); len(arrived) != 0 || calls > 4 {
				t.Errorf("%s: %d arrived, %d calls while it is blocked", class, len(arrived), calls)
			}
			time.Sleep(61 * time.Second)
			if arrived, _ := sink.seen(); len(arrived) != 50 || arrived[0].attempt != 1 {
				t.Errorf("%s: %d of 50 arrived when it was over", class, len(arrived))
			}
		})
	}
}

func TestOneSinksTroubleStaysItsOwn(t *testing.T) {
	dispatchers := append(orders(nil), &core.Dispatcher{Name: "parcels"})
	inWorld(t, dispatchers, func(w *world) {
		w.sinks["orders"].answers(func([]*core.Message) error { time.Sleep(9 * time.Second); return errBroker })
		w.accept(message("stuck", 0))
		for n := range 10 {
			w.accept(message(fmt.Sprint("p", n), time.Duration(n)*time.Second, func(m *core.Message) { m.Sink = "parcels" }))
		}
		time.Sleep(time.Minute)
		arrived, _ := w.sinks["parcels"].seen()
		for n, a := range arrived {
			if a.after != time.Duration(n)*time.Second {
				t.Errorf("%s arrived after %s, want %ds", a.id, a.after, n)
			}
		}
		if len(arrived) != 10 {
			t.Errorf("%d of 10 arrived", len(arrived))
		}
	})
}

func TestTopicBlockedSpendsNoAttemptAndLetsOthersGo(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		tries := 0
		sink.answers(func(batch []*core.Message) error {
			results := make(core.BatchError, len(batch))
			for n, m := range batch {
				if m.Topic == "missing" {
					tries++
					results[n] = core.Classify(core.TopicBlocked, errBroker)
				}
			}
			return results
		})
		w.accept(message("lost", 0, func(m *core.Message) { m.Topic = "missing" }, option("retry.max_attempts", "2")), message("fine", time.Second))
		time.Sleep(24 * time.Hour)
		w.wantArrivals("orders", arrival{"fine", 1, time.Second})
		e := w.wantState("lost", core.Retrying, "topic_blocked")
		if e.Message.Attempt != 0 || tries < 10 || tries > 400 {
			t.Errorf("after a day %d attempts are spent in %d tries, want none in a few hundred", e.Message.Attempt, tries)
		}
	})
}

func TestUnknownOfTheSinkCountsButNeverSpendsTheLastAttempt(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error { return core.Classify(core.Unknown, errBroker) })
		w.accept(message("a", 0, option("retry.max_attempts", "3")))
		time.Sleep(time.Hour)
		w.wantState("a", core.Retrying, "unknown")
		sink.answers(nil)
		time.Sleep(10 * time.Minute)
		arrived, _ := sink.seen()
		if len(arrived) != 1 || arrived[0].attempt != 3 {
			t.Errorf("arrived as %v, want once with attempt 3", arrived)
		}
	})
}

func TestPanicBlamesOneMessage(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		w.sinks["orders"].answers(func(batch []*core.Message) error {
			for _, m := range batch {
				if m.ID == "poison" {
					panic("encoder fell over")
				}
			}
			return nil
		})
		w.accept(message("a", time.Second), message("b", time.Second),
			message("poison", time.Second, option("retry.max_attempts", "2")), message("c", time.Second))
		time.Sleep(time.Minute)
		w.wantArrivals("orders", arrival{"a", 1, time.Second}, arrival{"b", 1, time.Second}, arrival{"c", 1, time.Second})
		w.wantState("poison", core.Dead, "attempts")
	})
}

func TestSinkThatIgnoresItsDeadlineIsNotCalledTwice(t *testing.T) {
	inWorld(t, orders(func(d *core.Dispatcher) { d.Timeout = time.Second }), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error { time.Sleep(time.Minute); return nil })
		w.accept(message("a", 0))
		time.Sleep(30 * time.Second)
		if _, calls := sink.seen(); calls != 1 {
			t.Errorf("%d calls while the first is stuck, want 1", calls)
		}
		w.wantState("a", core.Retrying, "unknown")
		sink.answers(nil)
		time.Sleep(45 * time.Second)
		w.wantState("a", core.Delivered, "")
	})
}

func TestStopSettlesWhatIsInFlightAndClosesInOrder(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(func([]*core.Message) error {
			time.Sleep(5 * time.Second)
			sink.mu.Lock()
			defer sink.mu.Unlock()
			if sink.closed {
				t.Error("sink was closed with a delivery under way")
			}
			return nil
		})
		w.accept(message("a", 0), message("later", time.Hour))
		time.Sleep(time.Second)
		w.stop()
		w.ended <- <-w.ended // inWorld waits for it again
		w.wantArrivals("orders", arrival{"a", 1, 5 * time.Second})
		w.wantState("a", core.Delivered, "")
		w.wantState("later", core.Scheduled, "")
		if !sink.closed {
			t.Error("sink is not closed")
		}
	})
}

func TestInputThatFailsEndsTheBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("address in use")
		other := false
		bridge := core.NewBridge(memstore.New(memstore.Config{}), core.Options{})
		err := bridge.Run(t.Context(),
			core.Input{Name: "HTTP listener", Run: func(context.Context) error { time.Sleep(time.Second); return boom }},
			core.Input{Run: func(ctx context.Context) error { <-ctx.Done(); other = true; return nil }})
		if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "HTTP listener: ") {
			t.Errorf("bridge ended with %v, want %v of the HTTP listener", err, boom)
		}
		if !other {
			t.Error("the other input was not told to stop")
		}
	})
}

func TestTotalsTellWhatHappened(t *testing.T) {
	dispatchers := orders(nil)
	inWorld(t, dispatchers, func(w *world) {
		w.sinks["orders"].answers(func(batch []*core.Message) error {
			time.Sleep(3 * time.Millisecond)
			return nil
		})
		w.accept(message("a", 0), message("b", time.Second), message("b", time.Second))
		w.in.Accept(t.Context(), message("b", 0, option("retry.jitter", "0.5")))
		time.Sleep(2 * time.Second)
		got, want := w.in.Local().Sinks[0].Last5m, core.Counts{Accepted: 2, Repeated: 1, Refused: 1, Delivered: 2}
		if totals := dispatchers[0].Totals(); totals != want || got.Counts != want {
			t.Errorf("totals are %+v, and of the last minutes %+v, want %+v", totals, got, want)
		}
		if got.LatenessP50 < 3*time.Millisecond || got.LatenessMax > 3300*time.Microsecond {
			t.Errorf("lateness is %s to %s, want 3 ms to within 7 %%", got.LatenessP50, got.LatenessMax)
		}
	})
}

func TestRepeatWithAGeneratedIDIsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, orders(nil)[0]).Interceptor
		for _, key := range [][]byte{nil, []byte("k")} {
			first := in.Accept(t.Context(), &core.Message{Sink: "orders", Topic: "t", Key: key, Delay: time.Hour})[0]
			again := in.Accept(t.Context(), &core.Message{Sink: "orders", Topic: "t", Key: key, Delay: time.Hour, ID: first.ID})[0]
			if first.Err != nil || again.Err != nil || !again.Duplicate || again.ID != first.ID {
				t.Errorf("key %q: first %+v, again %+v", key, first, again)
			}
		}
	})
}

func TestAnIDInTwoSinksIsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, orders(nil)[0], &core.Dispatcher{Name: "parcels"}).Interceptor
		in.Accept(t.Context(), message("a", time.Hour), message("a", time.Hour, func(m *core.Message) { m.Sink = "parcels" }), message("b", time.Hour))
		if _, err := in.Cancel(t.Context(), core.Ref{ID: "a"}); !errors.Is(err, core.ErrAmbiguous) {
			t.Errorf("cancel in two sinks: %v, want ambiguous", err)
		}
		if r, err := in.Cancel(t.Context(), core.Ref{ID: "a", Sink: "parcels"}); err != nil || r.Sink != "parcels" {
			t.Errorf("cancel in the sink named: %+v, %v", r, err)
		}
		if r, err := in.Cancel(t.Context(), core.Ref{ID: "b"}); err != nil || r.State != core.Cancelled {
			t.Errorf("cancel where it is: %+v, %v", r, err)
		}
		if _, err := in.Get(t.Context(), core.Ref{ID: "nobody"}); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("get of nobody: %v", err)
		}
	})
}
