package kafka

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestLoneMessageLeavesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		for range 3 {
			if took, err := deliverTimed(t, sink, messages("t", "lone")); err != nil || took != 0 {
				t.Errorf("got %v after %s, want nil at once", err, took)
			}
		}
	})
}

// TestRecordsAreGathered holds one request back and sees the fifteen Delivers
// that come meanwhile leave together.
func TestRecordsAreGathered(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		release := make(chan struct{})
		f.before = func(int) bool { <-release; return true }
		var group sync.WaitGroup
		for n := range 16 {
			group.Go(func() {
				if err := sink.Deliver(t.Context(), messages("t", fmt.Sprint(n))); err != nil {
					t.Errorf("Deliver: %v", err)
				}
			})
			synctest.Wait()
		}
		close(release)
		group.Wait()
		if f.produces != 2 || len(f.stored("t", 0)) != 16 {
			t.Errorf("%d requests for %d records, want 2 for 16", f.produces, len(f.stored("t", 0)))
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.leaders["t"] = slices.Repeat([]int{1}, 64)
		sink := f.openSink(t, map[string]any{"max_connections": 3})
		defer sink.Close()
		f.before = func(int) bool { time.Sleep(time.Millisecond); return true }
		var group sync.WaitGroup
		for n := range 64 {
			group.Go(func() {
				m := messages("t", "x")
				m[0].Options["partition"] = fmt.Sprint(n)
				if err := sink.Deliver(t.Context(), m); err != nil {
					t.Errorf("partition %d: %v", n, err)
				}
			})
		}
		group.Wait()
		if f.max > 4 {
			t.Errorf("%d connections, want 3 for records and 1 for questions", f.max)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if f.open != 0 {
			t.Errorf("%d connections are open after the idle timeout", f.open)
		}
	})
}

func TestThrottledBrokerIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.throttle = 3 * time.Second // longer than the request timeout
		var took [2]time.Duration
		for n := range took {
			var err error
			if took[n], err = deliverTimed(t, sink, messages("t", "x")); err != nil {
				t.Fatal(err)
			}
		}
		if took[0] != 0 || took[1] != 3*time.Second {
			t.Errorf("Delivers took %s, want 0s and 3s", took)
		}
	})
}

func TestMissingTopicIsAskedForOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		for range 100 {
			took, err := deliverTimed(t, sink, messages("missing", "x"))
			if isWhole(err) || core.ClassOf(err) != core.TopicBlocked || took != 0 {
				t.Fatalf("got %v after %s, want topic_blocked at once", err, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if f.questions > 10 {
			t.Errorf("%d questions in 10 seconds", f.questions)
		}
		f.set(func() { f.leaders["missing"] = []int{2} })
		time.Sleep(1100 * time.Millisecond)
		if _, err := deliverTimed(t, sink, messages("missing", "x")); err != nil {
			t.Errorf("when the topic is there: %v", err)
		}
	})
}

func TestIdleSinkIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		if _, err := deliverTimed(t, sink, messages("t", "x")); err != nil {
			t.Fatal(err)
		}
		questions, dials := f.questions, len(f.dials)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if f.questions != questions || len(f.dials) != dials {
			t.Errorf("%d questions and %d dials in an idle day", f.questions-questions, len(f.dials)-dials)
		}
	})
}
