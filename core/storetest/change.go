package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func changeRules() []rule {
	return []rule{
		{"each change from each state", changeFromEachState},
		{"a cancelled message never leaves", cancelledNeverLeaves},
		{"cancel after an attempt tells of it", cancelAfterAttempt},
		{"reschedule to later and to sooner", rescheduleMoves},
		{"reschedule goes behind what is due then", rescheduleGoesBehind},
		{"reschedule keeps the attempts", rescheduleKeepsAttempts},
		{"reschedule stays before the expiry", rescheduleBeforeExpiry},
		{"deliver now", deliverNow},
		{"redrive starts afresh", redriveStartsAfresh},
		{"discard is for good", discardIsForGood},
	}
}

// change is one of the calls that change a message by ID.
type change struct {
	name string
	from []core.State // those in which it succeeds
	call func(context.Context, core.Store, core.Ref) (core.Receipt, error)
}

func changes() []change {
	waiting, dead := []core.State{core.Scheduled, core.Retrying}, []core.State{core.Dead, core.Expired}
	return []change{
		{"cancel", waiting, func(ctx context.Context, s core.Store, ref core.Ref) (core.Receipt, error) { return s.Cancel(ctx, ref) }},
		{"reschedule", waiting, func(ctx context.Context, s core.Store, ref core.Ref) (core.Receipt, error) {
			return s.Reschedule(ctx, ref, core.When{After: 3 * time.Hour})
		}},
		{"redrive", dead, func(ctx context.Context, s core.Store, ref core.Ref) (core.Receipt, error) {
			return s.Redrive(ctx, ref)
		}},
		{"discard", dead, func(ctx context.Context, s core.Store, ref core.Ref) (core.Receipt, error) {
			return s.Discard(ctx, ref)
		}},
	}
}

// everyState parks, with IDs that begin with prefix, one message in each state
// that there is. What is delivering is in o's hand afterwards.
func everyState(t *suite, store core.Store, o *owner, prefixes ...string) {
	for _, prefix := range prefixes {
		park(t, store, message(prefix+"-retrying"))
		o.finish(prefix+"-retrying", retrying("", time.Hour, 1))
		park(t, store, message(prefix+"-dead"))
		o.finish(prefix+"-dead", deadLetter("", 2))
		park(t, store, message(prefix+"-expired"))
		o.finish(prefix+"-expired", expired("", 0))
		park(t, store, message(prefix+"-delivered"))
		o.finish(prefix+"-delivered", delivered(""))
		discarded(t, store, o, prefix+"-discarded")
		park(t, store, message(prefix+"-cancelled", later()), message(prefix+"-scheduled", later()))
		if _, err := store.Cancel(patient(t), ref(prefix+"-cancelled")); err != nil {
			t.Fatalf("cancel: %v", err)
		}
	}
	for _, prefix := range prefixes {
		park(t, store, message(prefix+"-delivering"))
	}
	o.awaitAll(len(prefixes))
}

func changeFromEachState(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	everyState(t, store, o, "cancel", "reschedule", "redrive", "discard")
	states := []core.State{core.Scheduled, core.Retrying, core.Delivering, core.Dead, core.Expired, core.Delivered, core.Cancelled, core.Discarded}
	for _, c := range changes() {
		for _, state := range states {
			t.Run(c.name+" "+string(state), func(t *testing.T) {
				c.check(t, store, ref(c.name+"-"+string(state)), state)
			})
		}
		if _, err := c.call(patient(t), store, ref("unheard-of")); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s what is not there: %v, want %v", c.name, err, core.ErrNotFound)
		}
	}
}

// check makes the change to a message that is in the given state.
func (c change) check(t *testing.T, store core.Store, ref core.Ref, state core.State) {
	allowed := false
	for _, s := range c.from {
		allowed = allowed || s == state
	}
	receipt, err := c.call(patient(t), store, ref)
	switch {
	case allowed && err != nil:
		t.Errorf("err %v, want none", err)
	case allowed && (receipt.ID != ref.ID || receipt.Sink != Sink):
		t.Errorf("receipt %+v", receipt)
	case !allowed && (!errors.Is(err, core.ErrTooLate) || receipt.State != state):
		t.Errorf("err %v, state %q; want %v, %q", err, receipt.State, core.ErrTooLate, state)
	}
	if !allowed {
		wantState(t, store, ref.ID, state)
	}
}

func cancelledNeverLeaves(t *suite) {
	var receipt core.Receipt
	var err error
	store, due := t.openAhead(1, func(store core.Store, due time.Time) {
		park(t, store, message("a", at(due)), message("b", at(due)), message("c", at(due)))
		receipt, err = store.Cancel(patient(t), ref("b"))
	})
	if err != nil || receipt.State != core.Cancelled || receipt.Attempt != 0 || !receipt.DeliverAt.Equal(due) {
		t.Fatalf("cancel: receipt %+v, err %v", receipt, err)
	}
	o := own(t, store, Sink, 1)
	wantIDs(t, o.awaitAll(2).Messages, "a", "c")
	o.settle()
	if batch := o.take(3); len(batch.Messages) != 2 {
		t.Errorf("took %v", ids(batch.Messages))
	}
}

func cancelAfterAttempt(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	o := own(t, store, Sink, 1)
	o.await(1)
	if receipt, err := store.Cancel(patient(t), ref("m")); !errors.Is(err, core.ErrTooLate) || receipt.State != core.Delivering {
		t.Errorf("cancel in flight: receipt %+v, err %v", receipt, err)
	}
	o.settle(retrying("m", time.Hour, 1))
	if receipt, err := store.Cancel(patient(t), ref("m")); err != nil || receipt.Attempt != 1 || receipt.State != core.Cancelled {
		t.Errorf("cancel after an attempt: receipt %+v, err %v", receipt, err)
	}
	if batch := o.take(1); len(batch.Messages) > 0 || !batch.Next.IsZero() {
		t.Errorf("took %v, next %s", ids(batch.Messages), batch.Next)
	}
}

func rescheduleMoves(t *suite) {
	store, now := t.open(1), time.Now().Truncate(time.Millisecond)
	park(t, store, message("m", later()))
	for _, hours := range []int{5, 2} {
		want := now.Add(time.Duration(hours) * time.Hour)
		receipt, err := store.Reschedule(patient(t), ref("m"), core.When{At: want})
		if err != nil || receipt.State != core.Scheduled || !receipt.DeliverAt.Equal(want) || receipt.ID != "m" {
			t.Fatalf("reschedule to %s: receipt %+v, err %v", want, receipt, err)
		}
		if entry := get(t, store, ref("m")); !entry.Due.Equal(want) || !entry.Message.DeliverAt.Equal(want) {
			t.Errorf("entry %+v of %+v, want due %s", entry, entry.Message, want)
		}
	}
	o := own(t, store, Sink, 1)
	began := time.Now()
	if _, err := store.Reschedule(patient(t), ref("m"), core.When{After: 80 * time.Millisecond}); err != nil {
		t.Fatalf("reschedule: %v", err)
	}
	wantIDs(t, o.await(1).Messages, "m")
	if since := time.Since(began); since < 80*time.Millisecond {
		t.Errorf("due after %s, want 80ms or more", since)
	}
}

func rescheduleGoesBehind(t *suite) {
	store, _ := t.openAhead(1, func(store core.Store, due time.Time) {
		park(t, store, message("a", at(due)), message("b", at(due)))
		if _, err := store.Reschedule(patient(t), ref("a"), core.When{At: due}); err != nil {
			t.Fatalf("reschedule: %v", err)
		}
	})
	wantIDs(t, own(t, store, Sink, 1).awaitAll(2).Messages, "b", "a")
}

func rescheduleKeepsAttempts(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	o := own(t, store, Sink, 1)
	o.finish("m", retrying("", time.Hour, 4))
	receipt, err := store.Reschedule(patient(t), ref("m"), core.When{})
	if err != nil || receipt.Attempt != 4 || receipt.State != core.Retrying {
		t.Fatalf("reschedule: receipt %+v, err %v", receipt, err)
	}
	if m := o.await(1).Messages[0]; m.Attempt != 5 || !m.DeliverAt.Equal(receipt.DeliverAt) {
		t.Errorf("attempt %d, deliver_at %s, want 5, %s", m.Attempt, m.DeliverAt, receipt.DeliverAt)
	}
}

func rescheduleBeforeExpiry(t *suite) {
	expires := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
	tests := []struct {
		name string
		when core.When
		ok   bool
	}{
		{"before", core.When{At: expires.Add(-time.Millisecond)}, true},
		{"at", core.When{At: expires}, false},
		{"beyond", core.When{After: 3 * time.Hour}, false},
		{"now", core.When{}, true},
	}
	store := t.open(1)
	for _, test := range tests {
		park(t, store, message(test.name, later(), func(m *core.Message) { m.ExpiresAt = expires }))
		before := get(t, store, ref(test.name))
		_, err := store.Reschedule(patient(t), ref(test.name), test.when)
		invalid, _ := errors.AsType[*core.InvalidError](err)
		if test.ok != (err == nil) || !test.ok && (invalid == nil || invalid.Field != "deliver_at") {
			t.Errorf("%s the expiry: err %v, want ok %t", test.name, err, test.ok)
		}
		after := get(t, store, ref(test.name))
		if !after.Message.ExpiresAt.Equal(expires) || !test.ok && !after.Due.Equal(before.Due) {
			t.Errorf("%s the expiry: due %s, expires at %s", test.name, after.Due, after.Message.ExpiresAt)
		}
	}
}

func deliverNow(t *suite) {
	store := t.open(1)
	was := park(t, store, message("m", later()))[0].DeliverAt
	receipt, err := store.Reschedule(patient(t), ref("m"), core.When{})
	if err != nil || !receipt.DeliverAt.Before(was.Add(-50*time.Minute)) {
		t.Fatalf("deliver now: receipt %+v, err %v", receipt, err)
	}
	m := own(t, store, Sink, 1).await(1).Messages[0]
	if m.ID != "m" || m.Attempt != 1 || !m.DeliverAt.Equal(receipt.DeliverAt) {
		t.Errorf("took %+v", m)
	}
}

func redriveStartsAfresh(t *suite) {
	store, expires := t.open(1), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	park(t, store, message("m", func(m *core.Message) { m.ExpiresAt = expires }))
	o := own(t, store, Sink, 1)
	first := o.await(1).Messages[0]
	o.settle(expired("m", 3))
	receipt, err := store.Redrive(patient(t), ref("m"))
	if err != nil || receipt.State != core.Scheduled || receipt.Attempt != 0 || receipt.DeliverAt.Before(first.DeliverAt) {
		t.Fatalf("redrive: receipt %+v, err %v", receipt, err)
	}
	entry := get(t, store, ref("m"))
	if entry.State != core.Scheduled || entry.Reason != "" || entry.Error != "" || entry.MayHaveBeenSent || !entry.Due.Equal(receipt.DeliverAt) {
		t.Errorf("entry %+v", entry)
	}
	again := o.await(1).Messages[0]
	if again.Attempt != 1 || again.CutOff || !again.ExpiresAt.IsZero() || !again.DeliverAt.Equal(receipt.DeliverAt) {
		t.Errorf("took %+v", again)
	}
	wantContent(t, again, message("m"))
}

func discardIsForGood(t *suite) {
	store := t.open(1)
	discarded(t, store, own(t, store, Sink, 1), "m")
	for _, c := range changes() {
		if receipt, err := c.call(patient(t), store, ref("m")); !errors.Is(err, core.ErrTooLate) || receipt.State != core.Discarded {
			t.Errorf("%s: receipt %+v, err %v", c.name, receipt, err)
		}
	}
	page := list(t, store, core.Query{States: []core.State{core.Dead, core.Expired}})
	if len(page.Entries) > 0 {
		t.Errorf("still listed: %+v", page.Entries)
	}
}
