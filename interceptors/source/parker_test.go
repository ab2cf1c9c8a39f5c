package source

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// script is a store that answers each Park by what comes next.
type script struct {
	*memstore.Store
	mu    sync.Mutex
	turns []func(n int, m *core.Message) error // nil: parked
	calls [][]string                           // IDs
	block chan struct{}                        // not nil: Park waits for it, or for its context
}

func newScript(turns ...func(int, *core.Message) error) *script {
	return &script{Store: memstore.New(memstore.Config{}), turns: turns}
}

func (s *script) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if s.block != nil {
		select {
		case <-s.block:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var turn func(int, *core.Message) error
	if len(s.turns) > 0 {
		turn, s.turns = s.turns[0], s.turns[1:]
	}
	var ids []string
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		ids = append(ids, m.ID)
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink}
		if turn != nil {
			receipts[n].Err = turn(n, m)
		}
		if ctx.Err() != nil {
			receipts[n].Err = core.ErrUnknown
		}
		if receipts[n].Err == nil || errors.Is(receipts[n].Err, core.ErrUnknown) {
			kept := s.Store.Park(ctx, m)[0]
			receipts[n].ID, receipts[n].Duplicate = kept.ID, kept.Duplicate
			if kept.Err != nil {
				receipts[n].Err = kept.Err
			}
		}
	}
	s.calls = append(s.calls, ids)
	return receipts
}

func always(err error) func(int, *core.Message) error {
	return func(int, *core.Message) error { return err }
}

func items(ids ...string) (made []Item) {
	for _, id := range ids {
		made = append(made, Item{Message: &core.Message{ID: id, Sink: "out", Topic: "orders", Delay: time.Hour}})
	}
	return made
}

// at names an item.
func at(index int) string { return "position " + strconv.Itoa(index) }

func noReject(context.Context, []Rejection) error { panic("nothing is to be rejected") }

func wantDone(t *testing.T, all []Item, done ...bool) {
	t.Helper()
	for n := range all {
		if all[n].Done != done[n] {
			t.Errorf("item %d is done: %t", n, all[n].Done)
		}
	}
}

func TestParkTriesTheSameAgain(t *testing.T) {
	for _, fault := range []error{core.ErrUnavailable, core.ErrFull, core.ErrUnknown, errors.New("unheard of")} {
		synctest.Test(t, func(t *testing.T) {
			second := func(n int, _ *core.Message) error {
				if n == 1 {
					return fault
				}
				return nil
			}
			store := newScript(always(fault), always(fault), second)
			p := &Parker{In: interceptor(store, core.Limits{})}
			all, begin := items("a", "b", "c"), time.Now()
			if err := p.Park(t.Context(), all, noReject, at); err != nil {
				t.Fatal(err)
			}
			wantDone(t, all, true, true, true)
			want := [][]string{{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}, {"b"}}
			if !slices.EqualFunc(store.calls, want, slices.Equal) {
				t.Errorf("%v: calls %v", fault, store.calls)
			}
			if took := time.Since(begin); took < 3*firstPause || took > 10*firstPause {
				t.Errorf("%v: took %s", fault, took)
			}
			report := p.Report()
			if errors.Is(fault, core.ErrUnknown) { // it had been parked
				report.Parked, report.Duplicates = report.Parked+report.Duplicates, 0
			}
			if report != (core.SourceReport{Parked: 3, Retried: 3, Lag: -1, LagTime: -1}) {
				t.Errorf("%v: %+v", fault, report)
			}
		})
	}
}

// TestParkKeepsGeneratedIDs: a message that came without an ID is not parked
// twice either.
func TestParkKeepsGeneratedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(always(core.ErrUnknown))
		p := &Parker{In: interceptor(store, core.Limits{})}
		all := items("")
		if err := p.Park(t.Context(), all, noReject, at); err != nil {
			t.Fatal(err)
		}
		if p.Report().Duplicates != 1 || store.calls[1][0] == "" {
			t.Errorf("%+v, calls %v", p.Report(), store.calls)
		}
	})
}

func TestParkRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Parker{In: interceptor(newScript(), core.Limits{MaxBody: 3})}
		all := items("a", "b", "same", "same", "c")
		all[1].Message, all[1].Err = nil, errors.New("not a message")
		all[3].Message.Body = []byte("xyz")
		all[4].Message.Body = []byte("much")
		tries := 0
		err := p.Park(t.Context(), all, func(_ context.Context, rejected []Rejection) error {
			if tries++; tries < 3 {
				return errors.New("no leader")
			}
			var indices []int
			for _, r := range rejected {
				indices = append(indices, r.Index)
			}
			if !slices.Equal(indices, []int{1, 3, 4}) || !errors.Is(rejected[1].Reason, core.ErrConflict) || !strings.Contains(rejected[2].Reason.Error(), "body: is larger") {
				t.Errorf("rejected %v", rejected)
			}
			return nil
		}, at)
		if err != nil || tries != 3 {
			t.Errorf("%v after %d tries", err, tries)
		}
		wantDone(t, all, true, true, true, true, true)
		if got := p.Report(); got != (core.SourceReport{Parked: 2, Rejected: 3, Retried: 2, Lag: -1, LagTime: -1}) {
			t.Errorf("%+v", got)
		}
		if err := p.Park(t.Context(), items("a"), noReject, at); err != nil || p.Report().Duplicates != 1 {
			t.Errorf("%v, %+v", err, p.Report())
		}
	})
}

func TestParkWithoutPlaceForRejected(t *testing.T) {
	p := &Parker{In: interceptor(newScript(), core.Limits{})}
	all := items("a", "b", "c")
	all[1].Message.Topic = ""
	err := p.Park(t.Context(), all, nil, at)
	refused, ok := errors.AsType[*RefusedError](err)
	if _, invalid := errors.AsType[*core.InvalidError](err); !ok || !invalid || refused.ID != "b" || !strings.Contains(err.Error(), "at position 1 ") {
		t.Errorf("got %v", err)
	}
	wantDone(t, all, true, false, true)
}

func TestParkEnds(t *testing.T) {
	cause := errors.New("enough")
	t.Run("while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			forever := make([]func(int, *core.Message) error, 1000)
			for n := range forever {
				forever[n] = always(core.ErrUnavailable)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			p := &Parker{In: interceptor(newScript(forever...), core.Limits{})}
			time.AfterFunc(time.Hour, func() { cancel(cause) })
			begin, all := time.Now(), items("a")
			if err := p.Park(ctx, all, nil, at); !errors.Is(err, cause) || time.Since(begin) != time.Hour {
				t.Errorf("%v after %s", err, time.Since(begin))
			}
			wantDone(t, all, false)
			if tries := p.Report().Retried; tries < 3600/5 || tries > 3600/2 {
				t.Errorf("%d tries in an hour", tries)
			}
		})
	})
	t.Run("what is under way may finish", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newScript()
			store.block = make(chan struct{})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			time.AfterFunc(2*time.Second, func() { close(store.block) })
			p, all := &Parker{In: interceptor(store, core.Limits{})}, items("a")
			if err := p.Park(ctx, all, nil, at); err != nil {
				t.Error(err)
			}
			wantDone(t, all, true)
		})
	})
	t.Run("but not for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newScript()
			store.block = make(chan struct{})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			p, all, begin := &Parker{In: interceptor(store, core.Limits{}), Linger: 3 * time.Second}, items("a"), time.Now()
			if err := p.Park(ctx, all, nil, at); !errors.Is(err, cause) || time.Since(begin) != 4*time.Second {
				t.Errorf("%v after %s", err, time.Since(begin))
			}
			wantDone(t, all, false)
		})
	})
	t.Run("before it begins", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		store := newScript()
		if err := (&Parker{In: interceptor(store, core.Limits{})}).Park(ctx, items("a"), nil, at); !errors.Is(err, cause) || len(store.calls) > 0 {
			t.Errorf("%v, %d calls", err, len(store.calls))
		}
	})
}

// TestParkAfterALongTime: a time that has become too long ago meanwhile means at
// once, be it in the source or while the store was unreachable.
func TestParkAfterALongTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := time.Now().Add(30 * time.Hour)
		store := newScript()
		store.turns = make([]func(int, *core.Message) error, 100000)
		for n := range store.turns {
			store.turns[n] = func(int, *core.Message) error {
				if time.Now().Before(unreachable) {
					return core.ErrUnavailable
				}
				return nil
			}
		}
		p, all := &Parker{In: interceptor(store, core.Limits{})}, items("old", "new", "later")
		all[0].Message.Delay, all[0].Message.DeliverAt = 0, time.Now().Add(-48*time.Hour)
		all[1].Message.Delay, all[1].Message.DeliverAt = 0, time.Now().Add(time.Hour)
		all[2].Message.Delay, all[2].Message.DeliverAt = 0, time.Now().Add(40*time.Hour)
		if err := p.Park(t.Context(), all, noReject, at); err != nil {
			t.Fatal(err)
		}
		wantDone(t, all, true, true, true)
		if all[2].Message.DeliverAt.IsZero() {
			t.Error("a time to come was taken away")
		}
	})
}

// TestDuplicatesAreTold: no record is passed over without a line of the log and a
// count, and a flood of them is no flood of lines.
func TestDuplicatesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &Parker{In: interceptor(memstore.New(memstore.Config{}), core.Limits{}), Name: "src", Log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 2 {
			if err := p.Park(t.Context(), items("a", "b", "c"), noReject, at); err != nil {
				t.Fatal(err)
			}
		}
		p.Flush()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if p.Report().Duplicates != 3 || len(lines) != 2 || !strings.Contains(lines[0], "source=src message_id=a") || !strings.Contains(lines[1], "count=2") {
			t.Errorf("%+v, log: %q", p.Report(), lines)
		}
	})
}

// TestObserverHearsOfBadRecords: once, before anything is parked.
func TestObserverHearsOfBadRecords(t *testing.T) {
	var told []string
	observer := core.Observer{Refused: func(_ context.Context, r core.Refusal) { told = append(told, r.Input+" "+r.Reason) }}
	in := core.NewBridge(newScript(nil, always(core.ErrUnavailable)), core.Options{Observer: observer}, &core.Dispatcher{Name: "out"}).For("orders-in")
	all := items("a", "b", "c")
	all[1].Err, all[2].Err = core.Invalidf("topic", "is missing"), errors.New("batch: corrupt")
	err := (&Parker{In: in}).Park(t.Context(), all, func(context.Context, []Rejection) error { return nil }, at)
	if want := []string{"orders-in invalid", "orders-in malformed"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("%v, told %q, want %q", err, told, want)
	}
}
