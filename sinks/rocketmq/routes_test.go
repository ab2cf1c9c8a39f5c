package rocketmq

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 97, "hello": 99162322, "polygenelubricants": -2147483648, "ü": 252, "😀": 1772899,
	} {
		if got := javaHash(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func queues(brokers string, each int) []*primitive.MessageQueue {
	var all []*primitive.MessageQueue
	for _, broker := range brokers {
		for n := range each {
			all = append(all, &primitive.MessageQueue{Topic: "T", BrokerName: string(broker), QueueId: n})
		}
	}
	return all
}

// The library shows the queues in any order; a key stays where it is.
func TestRouteIsStable(t *testing.T) {
	r := newRoutes()
	first := r.note("T", queues("ab", 3))
	second := r.note("T", queues("ba", 3))
	if first == second {
		t.Error("a new slice of the library is not looked at")
	}
	for n := range 50 {
		key := fmt.Sprint("key", n)
		if a, b := first.forKey(key), second.forKey(key); *a != *b {
			t.Errorf("%s moved from %v to %v", key, a, b)
		}
	}
	// of SelectMessageQueueByHash in Java: Math.abs(hashCode % size)
	if got := first.forKey("polygenelubricants"); got.BrokerName != "a" || got.QueueId != 2 {
		t.Errorf("the smallest hash goes to %v", got)
	}
}

func TestSelectAsksOrChooses(t *testing.T) {
	r, shown := newRoutes(), queues("a", 2)
	if got := r.Select(&primitive.Message{Topic: "T"}, shown, ""); got != nil {
		t.Errorf("a message that names no queue goes to %v", got)
	}
	known := r.of("T")
	if got := r.Select(&primitive.Message{Topic: "T", Queue: known.queues[1]}, shown, ""); got != known.queues[1] {
		t.Errorf("got %v", got)
	}
	if got := r.Select(&primitive.Message{Topic: "T", Queue: known.queues[1]}, queues("a", 1), ""); got != nil {
		t.Errorf("a queue that is gone: got %v", got)
	}
	if len(r.of("T").queues) != 1 {
		t.Error("the new queues are not noted")
	}
}

func TestNextAvoidsTroubledBrokers(t *testing.T) {
	b := newBrokers(func(string) error { return nil }, 1)
	route := newRoutes().note("T", queues("ab", 2))
	b.note("b", false)
	for range 8 {
		if q := route.next(b); q.BrokerName != "a" {
			t.Errorf("got %v", q)
		}
	}
	if route.othersWork("a", b) || !route.othersWork("b", b) {
		t.Error("others: want a for b, none for a")
	}
	b.note("a", false)
	if route.next(b) == nil {
		t.Error("with all in trouble, none is left")
	}
	b.note("b", true)
	if q := route.next(b); q.BrokerName != "b" {
		t.Errorf("after b works again: got %v", q)
	}
}

// One try serves all who ask, and holds for a while if it failed.
func TestConfirmTriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, answer := make(chan string, 10), make(chan error)
		b := newBrokers(func(name string) error { tries <- name; return <-answer }, 1)
		if err := b.confirm(t.Context(), "a", false); err != nil || len(tries) > 0 {
			t.Errorf("a broker without a failure: %v, %d tries", err, len(tries))
		}
		b.note("a", false)
		results := make(chan error, 5)
		ask := func(n int) {
			for range n {
				go func() { results <- b.confirm(t.Context(), "a", false) }()
			}
			synctest.Wait()
		}
		ask(5)
		answer <- errNoBroker
		for range 5 {
			if err := <-results; err != errNoBroker {
				t.Errorf("got %v", err)
			}
		}
		ask(1)
		if err := <-results; err != errNoBroker || len(tries) != 1 {
			t.Errorf("soon after: %v, %d tries", err, len(tries))
		}
		time.Sleep(trialHolds + 1)
		ask(1)
		answer <- nil
		if err := <-results; err != nil || len(tries) != 2 {
			t.Errorf("later: %v, %d tries", err, len(tries))
		}
	})
}

// Where others work, a broker that gives no sign of life is waited for a moment at
// its next try, and then not at all until it gives one.
func TestConfirmDoesNotWaitWhereOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		b := newBrokers(func(string) error { return <-answer }, 1)
		b.workersOf("a")
		b.note("b", false)
		wants := func(want error, wait time.Duration) {
			t.Helper()
			began := time.Now()
			if err := b.confirm(t.Context(), "b", b.othersWork("b")); err != want || time.Since(began) != wait {
				t.Errorf("after %s: %v, want after %s: %v", time.Since(began), err, wait, want)
			}
		}
		wants(errLately, 0)
		time.Sleep(avoidFor)
		wants(errSilent, moment)
		wants(errSilent, 0)
		if b.works("b") || b.othersWork("a") {
			t.Error("it works without a sign of life")
		}
		answer <- nil
		synctest.Wait()
		if wants(nil, 0); !b.works("b") || !b.othersWork("a") {
			t.Error("it does not work after a sign of life")
		}
		if b.keep(map[string]string{"b": "b:1"}); b.othersWork("b") {
			t.Error("one that is gone works")
		}
	})
}
