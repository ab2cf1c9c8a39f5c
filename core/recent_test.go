package core

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What many count at once is counted once each, also where a span ends, and what is
// remembered is bounded.
func TestRecentCountsEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 8, 1000
		var all totals
		for minute := 1; minute <= 90; minute++ {
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for range each {
						all.begin(time.Now())
						all.accepted.Add(1)
						all.recent.late(time.Millisecond)
					}
				})
			}
			group.Wait()
			for window, minutes := range map[int]int{last1m: 1, last5m: 5, last60m: 60} {
				got := all.recent.read(window, all.counts)
				if want := uint64(min(minute, minutes) * writers * each); got.Accepted > want || got.Accepted < want*55/60-writers || got.LatenessMax == 0 {
					t.Fatalf("in minute %d the last %d have %d, want %d at most", minute, minutes, got.Accepted, want)
				}
				if n, most := len(*all.recent[window].spans.Load()), grains()[window].spans; n > most {
					t.Fatalf("%d spans, want %d at most", n, most)
				}
			}
			time.Sleep(time.Minute)
		}
		if got := all.counts(); got.Accepted != 90*writers*each {
			t.Errorf("%d in all", got.Accepted)
		}
		time.Sleep(time.Hour)
		if got := all.recent.read(last60m, all.counts); got != (Recent{}) {
			t.Errorf("an hour later: %+v", got)
		}
	})
}

func TestLatenessIsWithinSevenPercent(t *testing.T) {
	for d := time.Duration(0); d < 400*24*time.Hour; d = d*5/4 + time.Microsecond {
		var one tally
		one[slot(d)]++
		if got := one.quantile(0.5); got < d.Truncate(time.Microsecond) || float64(got) > float64(d)*1.07 {
			t.Errorf("median of %s is given as %s", d, got)
		}
	}
	var h tally
	for n := 1; n <= 1000; n++ {
		h[slot(time.Duration(n)*time.Millisecond)]++
	}
	if p50, p99 := h.quantile(0.5), h.quantile(0.99); p50 < 500*time.Millisecond || p50 > 535*time.Millisecond || p99 < 990*time.Millisecond || p99 > 1060*time.Millisecond {
		t.Errorf("p50 %s and p99 %s of 1 to 1000 ms", p50, p99)
	}
	if a, b := slot(-time.Second), slot(1<<63-1); a != 0 || b != slots-1 {
		t.Errorf("the shortest is in slot %d, the longest in %d of %d", a, b, slots)
	}
}

func BenchmarkRecent(b *testing.B) {
	var all totals
	all.begin(time.Now())
	b.Run("begin", func(b *testing.B) {
		now := time.Now()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				all.begin(now)
			}
		})
	})
	b.Run("late", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				all.recent.late(time.Millisecond)
			}
		})
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			all.recent.read(last60m, all.counts)
		}
	})
}
