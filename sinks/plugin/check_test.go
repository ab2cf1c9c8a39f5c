package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// accepting is a way in to the plugin.
func (e *evilSink) accepting() *core.Interceptor {
	return core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "evil", Sink: e.Sink}).Interceptor
}

func newMessages(n int) []*core.Message {
	batch := make([]*core.Message, n)
	for i := range batch {
		batch[i] = &core.Message{Sink: "evil", Topic: "t", Body: []byte("body"), Delay: time.Hour}
	}
	return batch
}

// checks are the sizes of the calls of Check that have reached the plugin.
func (e *evilSink) checks() string {
	text, _ := os.ReadFile(e.record)
	return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", ")
}

func TestCheck(t *testing.T) {
	e := openEvil(t, "checks")
	err := e.Sink.(core.Checker).Check(t.Context(), []*core.Message{{Topic: "t"}, {Topic: "big"}, {Topic: "t"}})
	results, ok := errors.AsType[core.BatchError](err)
	if !ok || len(results) != 3 || results[0] != nil || results[2] != nil {
		t.Fatalf("got %v", err)
	}
	got, ok := errors.AsType[*core.InvalidError](results[1])
	if !ok || *got != (core.InvalidError{Field: "body", Reason: "is too large", TooLarge: true}) {
		t.Errorf("got %v", got)
	}
	if err := e.Sink.(core.Checker).Check(t.Context(), messages(2)); err != nil {
		t.Error(err)
	}
}

// TestBatchIsCheckedInOneCall: a Check that takes 30 ms holds up 500 messages no longer
// than one.
func TestBatchIsCheckedInOneCall(t *testing.T) {
	e := openEvil(t, "slow-check")
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	for n, r := range e.accepting().Accept(ctx, newMessages(500)...) {
		if r.Err != nil {
			t.Fatalf("message %d: %v", n, r.Err)
		}
	}
	if got := e.checks(); got != "check 500" {
		t.Errorf("calls: %s", got)
	}
}

// TestLargeBatchIsCheckedInParts: no request is larger than plugins take.
func TestLargeBatchIsCheckedInParts(t *testing.T) {
	e := openEvil(t, "checks")
	batch := newMessages(50)
	for _, m := range batch {
		m.Body = make([]byte, 200<<10)
	}
	batch[49].Topic = "big"
	receipts := e.accepting().Accept(t.Context(), batch...)
	for n, r := range receipts {
		if (r.Err != nil) != (n == 49) {
			t.Errorf("message %d: %v", n, r.Err)
		}
	}
	if got := e.checks(); got != "check 15, check 15, check 15, check 5" {
		t.Errorf("calls: %s", got)
	}
}

// TestCheckHangs: a plugin that lives and does not answer Check costs a request half of
// its time: then it is told so, nothing is stored, and the messages of other sinks are.
func TestCheckHangs(t *testing.T) {
	e := openEvil(t, "mute-check")
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "evil", Sink: e.Sink}, &core.Dispatcher{Name: "other"}).Interceptor
	batch := newMessages(3)
	batch[1].Sink = "other"
	const limit = 6 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	receipts := in.Accept(ctx, batch...)
	if ctx.Err() != nil {
		t.Error("all of the request's time is spent")
	}
	for _, n := range []int{0, 2} {
		err := receipts[n].Err
		if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "not stored: the plugin did not answer Check in time") {
			t.Errorf("message %d: %v", n, err)
		}
	}
	if receipts[1].Err != nil {
		t.Errorf("the other sink's message: %v", receipts[1].Err)
	}
	if f := e.details(); f["restarts"] != "0" {
		t.Errorf("details %v", f)
	}
}

// TestCheckNeverAnswered: what lives and yet answers no Check for long is restarted.
func TestCheckNeverAnswered(t *testing.T) {
	e := openEvil(t, "mute-check", func(s *settings) { s.pace.silence = time.Millisecond })
	for range hopeless {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := e.Sink.(core.Checker).Check(ctx, messages(1)); err == nil {
			t.Error("it is checked")
		}
		cancel()
	}
	e.restarted(1, slack)
	if f := e.details(); !strings.HasPrefix(f["last_exit"], "it did not answer a Check for ") {
		t.Errorf("details %v", f)
	}
}

// TestCheckOfWhatIsDown: a plugin that is down, or ends while it is asked, or makes no
// sense refuses nothing.
func TestCheckOfWhatIsDown(t *testing.T) {
	never := func(s *settings) { s.pace.first, s.pace.longest = time.Hour, time.Hour }
	for _, mode := range []string{"crash-in-check", "few-faults", "checks"} {
		t.Run(mode, func(t *testing.T) {
			e := openEvil(t, mode, never)
			if mode == "checks" {
				e.signal(syscall.SIGKILL)
			}
			for range 2 {
				for _, r := range e.accepting().Accept(t.Context(), newMessages(2)...) {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
			}
			if n := len(e.journal.with(t, "plugin can't check messages, they are accepted unchecked")); (n == 1) != (mode == "few-faults") || n > 1 {
				t.Errorf("logged %d times", n)
			}
		})
	}
}
