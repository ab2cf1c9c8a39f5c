package core_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// poisoned is a sink that fails as a whole, in its own way, if a message is in the batch
// whose id begins with "bad", and while it is down.
type poisoned struct {
	*scripted
	err  error
	down func() bool
}

func (p poisoned) answer(batch []*core.Message) error {
	if p.down != nil && p.down() {
		return errBroker
	}
	for _, m := range batch {
		if strings.HasPrefix(m.ID, "bad") {
			return p.err
		}
	}
	return nil
}

// passesMore sends good messages, one a second, as a last attempt is spent only if others
// have passed again.
func (w *world) passesMore(n int) {
	w.t.Helper()
	for n := range n {
		w.accept(message(fmt.Sprint("later", n), 0))
		time.Sleep(time.Second)
	}
}

// TestOneMessageThatFailsTheBatch: whatever a sink says of a batch because of one of its
// messages, the others go out and spend nothing, and that one becomes a dead letter.
func TestOneMessageThatFailsTheBatch(t *testing.T) {
	tooLarge := errors.New("record too large")
	for name, err := range map[string]error{
		"plain": tooLarge, "retry": core.Classify(core.Retry, tooLarge), "blocked": core.Classify(core.Blocked, tooLarge),
		"permanent": core.Classify(core.Permanent, tooLarge),
	} {
		for _, buckets := range []int{1, 16} {
			for _, bad := range []int{1, 7} {
				t.Run(fmt.Sprintf("%s, %d of 300 in %d buckets", name, bad, buckets), func(t *testing.T) {
					inWorldOf(t, buckets, orders(nil), func(w *world) {
						w.sinks["orders"].answers(poisoned{err: err}.answer)
						var ids []string
						for n := range 300 - bad {
							ids = append(ids, fmt.Sprint("good", n))
						}
						for n := range bad {
							ids = append(ids, fmt.Sprint("bad", n))
						}
						rand.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
						for _, id := range ids {
							w.accept(message(id, time.Second))
						}
						time.Sleep(5 * time.Minute)
						synctest.Wait()
						got, _ := w.sinks["orders"].seen()
						if len(got) != 300-bad {
							t.Errorf("%d of %d good messages have arrived after five minutes", len(got), 300-bad)
						}
						for _, a := range got {
							if a.attempt != 1 {
								t.Errorf("%s has spent %d attempts", a.id, a.attempt-1)
							}
						}
						time.Sleep(time.Hour)
						w.passesMore(60)
						reason := map[bool]string{true: "permanent", false: "attempts"}[name == "permanent"]
						for n := range bad {
							w.wantState(fmt.Sprint("bad", n), core.Dead, reason)
						}
					})
				})
			}
		}
	}
}

// TestSinkThatIsDownForHours: with messages among those that wait which the sink can't
// take. Nothing is spent while it is down; then all others go out.
func TestSinkThatIsDownForHours(t *testing.T) {
	for _, bad := range []int{0, 5} {
		t.Run(fmt.Sprintf("%d that it can't take", bad), func(t *testing.T) {
			inWorldOf(t, 4, orders(nil), func(w *world) {
				var down atomic.Bool
				down.Store(true)
				sink := w.sinks["orders"]
				sink.answers(poisoned{err: errors.New("too large"), down: down.Load}.answer)
				for n := range bad {
					w.accept(message(fmt.Sprint("bad", n), 0))
				}
				for n := range 100 {
					w.accept(message(fmt.Sprint("good", n), 0))
				}
				time.Sleep(6 * time.Hour)
				if _, calls := sink.seen(); calls > 6*3600+100 {
					t.Errorf("%d calls in six hours", calls)
				}
				for n := range 100 {
					if e := w.wantState(fmt.Sprint("good", n), core.Scheduled, ""); e.Message.Attempt != 0 {
						t.Errorf("%s has spent %d attempts", e.Message.ID, e.Message.Attempt)
					}
				}
				down.Store(false)
				time.Sleep(time.Hour)
				w.passesMore(60)
				if got, _ := sink.seen(); len(got) != 160 {
					t.Errorf("%d of 160 good messages have arrived an hour later", len(got))
				}
				for n := range bad {
					w.wantState(fmt.Sprint("bad", n), core.Dead, "attempts")
				}
			})
		})
	}
}

// TestAloneInItsBucket: a message that the sink can't take, with nothing beside it, is
// found by what passes in other buckets, and pauses the sink once.
func TestAloneInItsBucket(t *testing.T) {
	inWorldOf(t, 16, orders(func(d *core.Dispatcher) { d.Retry.MaxAttempts = 8 }), func(w *world) {
		sink := w.sinks["orders"]
		sink.answers(poisoned{err: errors.New("too large")}.answer)
		w.accept(message("bad", 0))
		sent := 0
		for range 1200 {
			w.accept(message(fmt.Sprint("good", sent), 0))
			sent++
			time.Sleep(time.Second)
		}
		synctest.Wait()
		w.wantState("bad", core.Dead, "attempts")
		got, _ := sink.seen()
		late := slices.DeleteFunc(got, func(a arrival) bool { return a.attempt == 1 })
		if len(got) != sent || len(late) > 0 {
			t.Errorf("%d of %d others arrived, %d after more than one attempt", len(got), sent, len(late))
		}
	})
}

// TestCrashIsTriedAlone: a message that crashes what delivers takes nobody with it a
// second time, though the others have but one attempt.
func TestCrashIsTriedAlone(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d attempts", attempts), func(t *testing.T) {
			inWorldOf(t, 4, orders(func(d *core.Dispatcher) { d.Retry.MaxAttempts = attempts }), func(w *world) {
				sink := w.sinks["orders"]
				var under, crashes atomic.Int64
				sink.answers(func(batch []*core.Message) error {
					under.Add(1)
					defer under.Add(-1)
					time.Sleep(10 * time.Millisecond)
					for _, m := range batch {
						if m.ID != "bad" {
							continue
						}
						if crashes.Add(1); m.Attempt > 1 && (under.Load() > 1 || len(batch) > 1) {
							t.Errorf("the suspect is tried with %d calls under way, in a batch of %d", under.Load(), len(batch))
						}
						return core.Classify(core.Unknown, fmt.Errorf("plugin: %w", core.ErrCrashed))
					}
					return nil
				})
				w.accept(message("bad", time.Second))
				for n := range 50 {
					w.accept(message(fmt.Sprint("good", n), time.Second))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				w.wantState("bad", core.Dead, "attempts")
				if want := int64(max(2, attempts)); crashes.Load() > want {
					t.Errorf("%d crashes, want %d", crashes.Load(), want)
				}
				got, _ := sink.seen()
				if len(got) != 50 {
					t.Errorf("%d of 50 others arrived", len(got))
				}
				for _, a := range got {
					if a.attempt > 2 {
						t.Errorf("%s arrived at attempt %d", a.id, a.attempt)
					}
				}
			})
		})
	}
}
