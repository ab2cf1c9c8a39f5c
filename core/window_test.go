package core

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What many record at once is counted once each, also where the minute ends, and
// what is remembered is bounded.
func TestWindowCountsEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 8, 1000
		var w window
		for minute := 1; minute <= 8; minute++ {
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for range each {
						w.record(time.Millisecond)
					}
				})
			}
			group.Wait()
			if got, want := w.count(), uint64(min(minute, windowSpans)*writers*each); got != want || len(*w.spans.Load()) > windowSpans {
				t.Errorf("in minute %d the window has %d in %d spans, want %d", minute, got, len(*w.spans.Load()), want)
			}
			time.Sleep(windowSpan)
		}
	})
}

func (w *window) count() uint64 {
	var n uint64
	h := w.sum()
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

func BenchmarkWindowRecord(b *testing.B) {
	var w window
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.record(time.Millisecond)
		}
	})
}
