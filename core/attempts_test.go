package core_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Trouble of the sink as a whole spends no last attempt, even the only one; but
// what may have been sent says so, and a cancel does not call it unsent.
func TestOnlyAttemptOfUnknownOutcome(t *testing.T) {
	inWorld(t, orders(func(d *core.Dispatcher) { d.Retry.MaxAttempts = 1 }), func(w *world) {
		lost := core.Classify(core.Unknown, errors.New("reply was lost"))
		w.sinks["orders"].answers(func([]*core.Message) error { return lost })
		w.accept(message("a", 0), message("b", 0))
		time.Sleep(time.Hour)
		synctest.Wait() // a probe may be under way
		if e := w.wantState("a", core.Retrying, "unknown"); !e.MayHaveBeenSent {
			t.Error("it may not have been sent")
		}
		if r, err := w.in.Cancel(t.Context(), core.Ref{ID: "a"}); err != nil || r.Attempt != 1 {
			t.Errorf("cancelled with receipt %+v, %v; want one attempt", r, err)
		}
		w.sinks["orders"].answers(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if arrived, _ := w.sinks["orders"].seen(); len(arrived) != 1 || arrived[0].id != "b" || arrived[0].attempt != 2 {
			t.Errorf("arrived %+v, want b as the second attempt", arrived)
		}
	})
}
