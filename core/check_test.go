package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// checking is a sink that checks as a test says.
type checking struct {
	core.Sink
	check   func(ctx context.Context, batch []*core.Message) error
	batches []int
}

func (c *checking) Check(ctx context.Context, batch []*core.Message) error {
	c.batches = append(c.batches, len(batch))
	return c.check(ctx, batch)
}

// accepting is an Interceptor to sinks a and b, of which a checks.
func accepting(a *checking) (*core.Interceptor, core.Store) {
	store := memstore.New(memstore.Config{})
	return core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "a", Sink: a}, &core.Dispatcher{Name: "b"}).Interceptor, store
}

func toSinks(names ...string) (messages []*core.Message) {
	for n, name := range names {
		messages = append(messages, &core.Message{ID: fmt.Sprintf("m%d", n), Sink: name, Topic: "t", Body: []byte("b"), Delay: time.Hour})
	}
	return messages
}

// TestCheckedInOneCall: a sink is asked once about its messages of an accept, whatever
// else is among them, and each gets its own answer.
func TestCheckedInOneCall(t *testing.T) {
	a := &checking{check: func(ctx context.Context, batch []*core.Message) error {
		return core.CheckEach(ctx, batch, func(m *core.Message) error {
			if m.ID == "m2" {
				return core.Invalidf("topic", "is odd")
			}
			return nil
		})
	}}
	in, _ := accepting(a)
	messages := toSinks("a", "b", "a", "nowhere", "a", "b")
	for n, r := range in.Accept(t.Context(), messages...) {
		_, invalid := errors.AsType[*core.InvalidError](r.Err)
		if want := n == 2 || n == 3; invalid != want || r.ID != messages[n].ID {
			t.Errorf("message %d: %+v", n, r)
		}
	}
	if fmt.Sprint(a.batches) != "[3]" {
		t.Errorf("asked about %v, want once about 3", a.batches)
	}
}

// TestCheckEndsWithTheRequest: a sink that does not answer holds a request up to its
// deadline; then nothing of its own is stored, which the answer says, and the same
// can be sent again.
func TestCheckEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &checking{check: func(ctx context.Context, _ []*core.Message) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		in, store := accepting(a)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began, messages := time.Now(), toSinks("a", "a")
		for _, r := range in.Accept(ctx, messages...) {
			if !errors.Is(r.Err, core.ErrUnavailable) || errors.Is(r.Err, core.ErrUnknown) || !strings.Contains(r.Err.Error(), "sink a could not check the message, which is not stored") {
				t.Errorf("got %v", r.Err)
			}
			if _, err := store.Get(t.Context(), core.Ref{Sink: "a", ID: r.ID}); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("it is stored: %v", err)
			}
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		a.check = func(context.Context, []*core.Message) error { return nil }
		for _, r := range in.Accept(t.Context(), toSinks("a", "a")...) {
			if r.Err != nil || r.Duplicate {
				t.Errorf("again: %+v", r)
			}
		}
	})
}

// TestCheckWithoutSense: a Check with too few results tells nothing, so that nothing is
// accepted; what is for others is.
func TestCheckWithoutSense(t *testing.T) {
	in, _ := accepting(&checking{check: func(context.Context, []*core.Message) error { return core.BatchError{nil} }})
	receipts := in.Accept(t.Context(), toSinks("a", "b", "a")...)
	if !errors.Is(receipts[0].Err, core.ErrUnavailable) || receipts[1].Err != nil || !errors.Is(receipts[2].Err, core.ErrUnavailable) {
		t.Errorf("got %+v", receipts)
	}
}

func TestCheckEachEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := core.CheckEach(ctx, toSinks("a", "a", "a"), func(*core.Message) error {
		calls++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
