package storetest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

func settleRules() []rule {
	return []rule{
		{"delivered is removed", deliveredIsRemoved},
		{"what is not named goes back in its order", unnamedGoesBack},
		{"retrying comes again when its time has come", retryingComesAgain},
		{"retrying goes behind what is due then", retryingGoesBehind},
		{"a failure that spends no attempt", noAttemptSpent},
		{"dead and expired are kept with their reasons", deadIsKept},
		{"the error text is cut", errorIsCut},
		{"twice does no harm", settleTwice},
		{"what is not in flight is ignored", strangerIsIgnored},
		{"outcomes come in any order of priorities", anyOrderOfPriorities},
	}
}

func deliveredIsRemoved(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	o := own(t, store, Sink, 1)
	o.finish("m", delivered(""))
	if batch := o.take(1); len(batch.Messages) > 0 || !batch.Next.IsZero() {
		t.Errorf("took %v, next %s after all was delivered", ids(batch.Messages), batch.Next)
	}
	wantState(t, store, "m", core.Delivered)
}

func unnamedGoesBack(t *suite) {
	store, due := t.openAhead(1, func(store core.Store, due time.Time) {
		for _, id := range []string{"e", "d", "c", "b", "a"} {
			park(t, store, message(id, at(due)))
		}
		park(t, store, message("first", priority(3), at(due)))
	})
	o := own(t, store, Sink, 1)
	wantIDs(t, o.awaitAll(6).Messages, "first", "e", "d", "c", "b", "a")
	o.settle()
	wantIDs(t, o.take(3).Messages, "first", "e", "d")
	o.settle(delivered("e"))
	batch := o.take(6)
	wantIDs(t, batch.Messages, "first", "d", "c", "b", "a")
	for _, m := range batch.Messages {
		if m.Attempt != 1 || m.CutOff || !m.DeliverAt.Equal(due) {
			t.Errorf("%s came back with attempt %d, cut off %t, deliver_at %s", m.ID, m.Attempt, m.CutOff, m.DeliverAt)
		}
	}
	o.settle()
	wantState(t, store, "first", core.Scheduled)
}

func retryingComesAgain(t *suite) {
	const wait = 60 * time.Millisecond
	store := t.open(1)
	deliverAt := park(t, store, message("m"))[0].DeliverAt
	o := own(t, store, Sink, 1)
	o.await(1)
	for attempts := 1; attempts <= 3; attempts++ {
		began := time.Now()
		o.settle(retrying("m", wait, attempts))
		entry := get(t, store, ref("m"))
		if entry.State != core.Retrying || entry.Reason != "retry" || entry.Error != "try later" || !entry.MayHaveBeenSent ||
			entry.Message.Attempt != attempts || !entry.Message.DeliverAt.Equal(deliverAt) || !entry.Due.After(deliverAt) {
			t.Errorf("entry after %d attempts: %+v of %+v", attempts, entry, entry.Message)
		}
		m := o.await(1).Messages[0]
		if since := time.Since(began); since < wait {
			t.Errorf("came again after %s, want %s or more", since, wait)
		}
		if m.Attempt != attempts+1 || m.CutOff || !m.DeliverAt.Equal(deliverAt) {
			t.Errorf("came again with attempt %d, cut off %t, deliver_at %s", m.Attempt, m.CutOff, m.DeliverAt)
		}
	}
	if r := parkAgain(t, store, message("m")); !r.Duplicate || r.State != core.Delivering || r.Attempt != 3 || !r.DeliverAt.Equal(deliverAt) {
		t.Errorf("parked again: %+v", r)
	}
}

func retryingGoesBehind(t *suite) {
	store := t.open(1)
	park(t, store, message("a"), message("b"))
	o := own(t, store, Sink, 1)
	o.awaitAll(2)
	o.settle(retrying("a", 0, 1))
	wantIDs(t, o.awaitAll(2).Messages, "b", "a")
	o.settle(retrying("a", 0, 2), retrying("b", 0, 1))
	wantIDs(t, o.awaitAll(2).Messages, "a", "b")
	o.settle(retrying("b", 0, 2), retrying("a", 0, 3))
	wantIDs(t, o.awaitAll(2).Messages, "b", "a")
}

func noAttemptSpent(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	o := own(t, store, Sink, 1)
	o.finish("m", retrying("", time.Hour, 0))
	if entry := get(t, store, ref("m")); entry.State != core.Retrying || entry.MayHaveBeenSent || entry.Reason != "retry" {
		t.Errorf("entry %+v", entry)
	}
	if _, err := store.Reschedule(patient(t), ref("m"), core.When{}); err != nil {
		t.Fatalf("reschedule: %v", err)
	}
	if m := o.await(1).Messages[0]; m.Attempt != 1 || m.CutOff {
		t.Errorf("came again with attempt %d, cut off %t", m.Attempt, m.CutOff)
	}
}

func deadIsKept(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	outcomes := []core.Outcome{deadLetter("dead", 3), expired("expired", 0)}
	for _, outcome := range outcomes {
		m := message(outcome.ID, key("k"))
		park(t, store, clone(m))
		o.finish(outcome.ID, outcome)
		entry := get(t, store, refKey(outcome.ID, "k"))
		wantContent(t, entry.Message, m)
		if entry.State != outcome.State || entry.Reason != outcome.Reason || entry.Error != outcome.Error ||
			entry.Message.Attempt != outcome.Attempts || entry.MayHaveBeenSent != (outcome.Attempts > 0) {
			t.Errorf("%s: entry %+v of %+v", outcome.ID, entry, entry.Message)
		}
		if off := time.Since(entry.Due).Abs(); off > time.Minute {
			t.Errorf("%s: due is %s, want when it died", outcome.ID, entry.Due)
		}
		if r := parkAgain(t, store, message(outcome.ID, key("k"))); !r.Duplicate || r.State != outcome.State || r.Attempt != outcome.Attempts {
			t.Errorf("%s parked again: %+v", outcome.ID, r)
		}
	}
	if batch := o.take(5); len(batch.Messages) > 0 || !batch.Next.IsZero() {
		t.Errorf("took %v, next %s of dead letters only", ids(batch.Messages), batch.Next)
	}
}

func errorIsCut(t *suite) {
	store := t.open(1)
	park(t, store, message("m"))
	outcome := deadLetter("", 1)
	outcome.Error = strings.Repeat("ä", core.MaxErrorText)
	own(t, store, Sink, 1).finish("m", outcome)
	got := get(t, store, ref("m")).Error
	if want := core.Shorten(outcome.Error, core.MaxErrorText); got != want || !utf8.ValidString(got) {
		t.Errorf("error has %d bytes, want the first %d", len(got), len(want))
	}
}

func settleTwice(t *suite) {
	store := t.open(1)
	park(t, store, message("a"), message("b"), message("c"))
	o := own(t, store, Sink, 1)
	o.awaitAll(3)
	outcomes := []core.Outcome{delivered("a"), retrying("b", time.Hour, 1), deadLetter("c", 1)}
	o.settle(outcomes...)
	before := []core.Entry{get(t, store, ref("b")), get(t, store, ref("c"))}
	o.settle(outcomes...)
	for _, want := range before {
		got := get(t, store, ref(want.Message.ID))
		if got.State != want.State || !got.Due.Equal(want.Due) || got.Message.Attempt != 1 {
			t.Errorf("%s: %+v after settling twice, want %+v", want.Message.ID, got, want)
		}
	}
	if batch := o.take(3); len(batch.Messages) > 0 {
		t.Errorf("took %v", ids(batch.Messages))
	}
}

func strangerIsIgnored(t *suite) {
	store := t.open(1)
	park(t, store, message("mine"), message("waiting", later()))
	o := own(t, store, Sink, 1)
	wantIDs(t, o.await(1).Messages, "mine")
	o.settle(delivered("waiting"), deadLetter("unheard-of", 1), delivered("mine"))
	wantState(t, store, "waiting", core.Scheduled)
	wantState(t, store, "mine", core.Delivered)
	wantNotFound(t, store, "unheard-of")
}

func anyOrderOfPriorities(t *suite) {
	store, _ := t.openAhead(1, func(store core.Store, due time.Time) {
		park(t, store, message("a", priority(5), at(due)), message("b", at(due)), message("c", priority(5), at(due)), message("d", at(due)))
	})
	o := own(t, store, Sink, 1)
	wantIDs(t, o.awaitAll(4).Messages, "a", "c", "b", "d")
	o.settle(delivered("c"), retrying("d", 0, 1), delivered("a"), delivered("b"))
	wantIDs(t, o.awaitAll(1).Messages, "d")
	o.settle()
	for _, id := range []string{"a", "b", "c"} {
		wantState(t, store, id, core.Delivered)
	}
}
