package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func takeRules() []rule {
	return []rule{
		{"nothing is early", nothingEarly},
		{"by due time", byDueTime},
		{"by acceptance when due at once", byAcceptance},
		{"by priority among what is due", byPriority},
		{"equal keys leave in order", equalKeys},
		{"no more than asked for", noMoreThanAsked},
		{"next is the earliest that is not in flight", nextIsEarliest},
		{"taking with messages in flight is refused", takeTwice},
		{"what is past its expiry is taken", expiredIsTaken},
		{"hundreds at once", hundreds},
	}
}

func nothingEarly(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	const n = 40
	began := make(map[string]time.Time)
	delays := make(map[string]time.Duration)
	for i := range n {
		id, delay := fmt.Sprintf("m%02d", i), time.Duration(i%20)*7*time.Millisecond
		m := message(id, after(delay))
		if i >= n/2 {
			m = message(id, at(time.Now().Add(delay).Truncate(time.Millisecond).Add(time.Millisecond)))
		}
		began[id], delays[id] = time.Now(), delay
		park(t, store, m)
	}
	for seen := 0; seen < n; {
		batch := o.await(3)
		var done []core.Outcome
		for _, m := range batch.Messages {
			// The elapsed time is free of what the clocks say.
			if since := time.Since(began[m.ID]); since < delays[m.ID] {
				t.Errorf("%s was taken after %s, want %s or more", m.ID, since, delays[m.ID])
			}
			done = append(done, delivered(m.ID))
		}
		o.settle(done...)
		seen += len(batch.Messages)
	}
}

func byDueTime(t *suite) {
	store, _ := t.openAhead(1, func(store core.Store, due time.Time) {
		var messages []*core.Message
		for n, id := range []string{"c", "a", "d", "b"} {
			offset := []int{2, 0, 3, 1}[n]
			messages = append(messages, message(id, at(due.Add(time.Duration(offset)*time.Millisecond))))
		}
		park(t, store, messages...)
	})
	wantIDs(t, own(t, store, Sink, 1).awaitAll(4).Messages, "a", "b", "c", "d")
}

func byAcceptance(t *suite) {
	order := []string{"z", "A", "m", "9", "ab", "aa", "b"} // no order of names, either way
	var receipts []core.Receipt
	store, due := t.openAhead(1, func(store core.Store, due time.Time) {
		for _, id := range order[:3] {
			park(t, store, message(id, at(due)))
		}
		var rest []*core.Message
		for _, id := range order[3:] {
			rest = append(rest, message(id, at(due)))
		}
		receipts = park(t, store, rest...)
	})
	for n, r := range receipts {
		if !r.DeliverAt.Equal(due) {
			t.Fatalf("receipt %d: deliver_at %s, want %s", n, r.DeliverAt, due)
		}
	}
	wantIDs(t, own(t, store, Sink, 1).awaitAll(len(order)).Messages, order...)
}

func byPriority(t *suite) {
	store, _ := t.openAhead(1, func(store core.Store, due time.Time) {
		park(t, store,
			message("low-late", at(due.Add(time.Millisecond))), message("low", at(due)), message("low-too", at(due)),
			message("high-to-come", priority(core.MaxPriority), later()),
			message("high-late", priority(5), at(due.Add(time.Millisecond))), message("high", priority(5), at(due)),
			message("highest", priority(core.MaxPriority), at(due.Add(2*time.Millisecond))))
	})
	wantIDs(t, own(t, store, Sink, 1).awaitAll(6).Messages, "highest", "high", "high-late", "low", "low-too", "low-late")
}

func equalKeys(t *suite) {
	store, _ := t.openAhead(3, func(store core.Store, due time.Time) {
		for i := range 30 {
			k := fmt.Sprint(i % 5)
			park(t, store, message(fmt.Sprintf("%s-%02d", k, 99-i), key(k), at(due)))
		}
	})
	last := make(map[string]string)
	for _, m := range collect(t, drain(t, store), 30) {
		k := string(m.Key)
		if before := last[k]; before != "" && m.ID > before {
			t.Errorf("%s left after %s, which was parked after it", m.ID, before)
		}
		last[k] = m.ID
	}
}

func noMoreThanAsked(t *suite) {
	store := t.open(1)
	park(t, store, message("a"), message("b"), message("c"))
	o := own(t, store, Sink, 1)
	o.awaitAll(3)
	o.settle()
	batch := o.take(2)
	wantIDs(t, batch.Messages, "a", "b")
	if batch.Next.IsZero() || batch.Next.After(batch.Now) {
		t.Errorf("next is %s with more due, want not after %s", batch.Next, batch.Now)
	}
}

func nextIsEarliest(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	if batch := o.take(1); !batch.Next.IsZero() || len(batch.Messages) > 0 || batch.Now.IsZero() {
		t.Errorf("empty bucket: batch %+v", batch)
	}
	soon, late := time.Now().Add(time.Hour).Truncate(time.Millisecond), time.Now().Add(2*time.Hour)
	park(t, store, message("late", priority(9), at(late)), message("soon", at(soon)), message("now"))
	batch := o.await(5)
	wantIDs(t, batch.Messages, "now")
	if !batch.Next.Equal(soon) {
		t.Errorf("next is %s, want %s", batch.Next, soon)
	}
	o.settle(delivered("now"))
	if batch := o.take(5); !batch.Next.Equal(soon) || len(batch.Messages) > 0 {
		t.Errorf("nothing due: %d messages, next %s, want %s", len(batch.Messages), batch.Next, soon)
	}
}

func takeTwice(t *suite) {
	store := t.open(1)
	park(t, store, message("a"), message("b"))
	o := own(t, store, Sink, 1)
	o.awaitAll(2)
	o.settle()
	wantIDs(t, o.take(1).Messages, "a")
	if batch, err := o.buckets[0].Take(context.Background(), 1); err == nil {
		t.Errorf("take with messages in flight: %v, want an error", ids(batch.Messages))
	}
	o.settle(delivered("a"))
	wantIDs(t, o.take(2).Messages, "b")
}

func expiredIsTaken(t *suite) {
	store := t.open(1)
	expires := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
	park(t, store, message("m", func(m *core.Message) { m.ExpiresAt = expires }))
	o := own(t, store, Sink, 1)
	for {
		batch := o.await(1)
		wantIDs(t, batch.Messages, "m")
		if !batch.Messages[0].ExpiresAt.Equal(expires) {
			t.Fatalf("expires_at is %s, want %s", batch.Messages[0].ExpiresAt, expires)
		}
		if batch.Now.After(expires) {
			return
		}
		o.settle()
		if err := o.buckets[0].Wait(patient(t), expires.Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

func hundreds(t *suite) {
	store, n := t.open(1), 2*core.MaxTake+10
	want := make([]string, n)
	messages := make([]*core.Message, n)
	for i := range n {
		want[i] = fmt.Sprintf("m%04d", (i*7919)%n)
		messages[i] = message(want[i], key("one"))
	}
	park(t, store, messages...)
	o := own(t, store, Sink, 1)
	var got []*core.Message
	for len(got) < n {
		batch := o.await(core.MaxTake)
		done := make([]core.Outcome, len(batch.Messages))
		for i, m := range batch.Messages {
			done[i] = delivered(m.ID)
		}
		o.settle(done...)
		got = append(got, batch.Messages...)
	}
	wantIDs(t, got, want...)
}
