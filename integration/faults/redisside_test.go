//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLossIsAllowedInItsTimeOnly(t *testing.T) {
	lossy := []window{{at(0), at(100)}}
	again := with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome = at(200), at(205), duplicate })
	clean := call(cancelling, 50, done)
	for _, test := range []struct {
		name    string
		entries []entry
		want    []string
	}{
		{"lost where it may be", []entry{accepted()}, nil},
		{"accepted earlier", []entry{with(accepted(), func(e *entry) { e.Return = at(-1) })}, []string{"L1"}},
		{"accepted later", []entry{with(accepted(), func(e *entry) { e.Return = at(101) })}, []string{"L1"}},
		{"accepted then and confirmed later", []entry{accepted(), again}, []string{"L1"}},
		{"a cancel that was lost", []entry{accepted(), clean, arrived(1001, 1)}, nil},
		{"a cancel that can't have been lost", []entry{accepted(), call(cancelling, 200, done), arrived(1001, 1)}, []string{"L5"}},
	} {
		w := testLaws()
		w.lossy = lossy
		if got := lawsOf(w.check(ledgerOf(test.entries...))); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.name, got, test.want)
		}
	}
}

func TestWhatWasNotWaitedForMayBeForgotten(t *testing.T) {
	failover := fault{What: "failover", From: at(1500), To: at(1900)}
	first := with(accepted(), func(e *entry) { e.Outcome = unknown })
	second := with(accepted(), func(e *entry) { e.Call, e.Return, e.Due = at(2000), at(2005), at(3000) })
	cancel := call(cancelling, 2100, done)
	during := with(cancel, func(e *entry) { e.Call = at(1400) })
	for _, test := range []struct {
		name    string
		entries []entry
		rolled  bool
		want    []string
	}{
		{"never accepted, sent again and cancelled", []entry{first, arrived(1001, 1), second, cancel}, true, nil},
		{"nothing was forgotten", []entry{first, arrived(1001, 1), second, cancel}, false, []string{"L5", "L8"}},
		{"accepted, delivered and cancelled", []entry{accepted(), arrived(1001, 1), cancel}, true, nil},
		{"delivered while a cancel was tried, which was tried again", []entry{accepted(), arrived(1450, 1), during}, true, nil},
		{"the same, and it arrives after the fault", []entry{accepted(), arrived(1950, 1), during}, true, []string{"L5"}},
		{"it was accepted and is accepted again", []entry{accepted(), arrived(1001, 1), second}, true, []string{"L8"}},
		{"it arrives after the cancel", []entry{first, second, cancel, arrived(3001, 1)}, true, []string{"L5", "L8"}},
		{"it arrives after the fault", []entry{accepted(), arrived(1950, 1), cancel}, true, []string{"L5"}},
	} {
		w := testLaws()
		w.rolledBack = test.rolled
		l := ledgerOf(test.entries...)
		l.faults = []fault{failover}
		if got := lawsOf(append(w.check(l), w.linear(l)...)); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.name, got, test.want)
		}
	}
}

func TestEarlyByAClockThatJumps(t *testing.T) {
	asked := func(ms int) entry { // at ms, with a delay of a second by the clock of then
		return with(accepted(), func(e *entry) { e.Call, e.Return, e.Least = at(ms), at(ms+5), at(ms+1000) })
	}
	due := func(e entry, ms int) entry { return with(e, func(e *entry) { e.Due = at(ms) }) }
	hour := int(time.Hour / time.Millisecond)
	for _, test := range []struct {
		name  string
		jumps []jump
		sent  entry
		got   entry
		want  []string
	}{
		{"forward while it waits", []jump{{at(100), at(101), time.Hour}}, asked(0), arrived(110, 1), nil},
		{"no jump", nil, asked(0), arrived(110, 1), []string{"L4"}},
		{"back while it waits, and it comes at the old time", []jump{{at(100), at(101), -time.Hour}}, asked(0), arrived(hour, 1), []string{"L4"}},
		{"back, and it comes when the clock is there again", []jump{{at(100), at(101), -time.Hour}}, asked(0), arrived(hour+1000, 1), nil},
		{"taken before the clock went back", []jump{{at(900), at(901), -time.Hour}}, due(asked(-500), 500), due(arrived(905, 1), 500), nil},
		{"sent after it went back", []jump{{at(0), at(1), -time.Hour}}, due(asked(4000), 5000-hour), due(arrived(5001, 1), 5000-hour), nil},
		{"sent after it went back, and early", []jump{{at(0), at(1), -time.Hour}}, due(asked(4000), 5000-hour), due(arrived(4900, 1), 5000-hour), []string{"L4"}},
	} {
		w := testLaws()
		w.jumps = test.jumps
		if got := lawsOf(w.early(&account{name: "m", calls: []entry{test.sent}, arrivals: []entry{test.got}})); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.name, got, test.want)
		}
	}
}

// A call without an answer may have been done by the clock of before a jump.
func TestOrderByAClockThatJumps(t *testing.T) {
	lost := with(accepted(), func(e *entry) { e.Call, e.Return, e.Least, e.Outcome = at(0), at(14), at(700), unknown })
	again := with(accepted(), func(e *entry) { e.Call, e.Return, e.Outcome, e.State = at(126), at(141), duplicate, "delivering" })
	for name, test := range map[string]struct {
		jumps []jump
		want  []string
	}{
		"back before it, and forward again": {[]jump{{at(-3000), at(-2900), -time.Hour}, {at(1), at(82), 0}}, nil},
		"no jump":                           {nil, []string{"L8"}},
		"forward after the end":             {[]jump{{at(5000), at(5001), time.Hour}}, []string{"L8"}},
	} {
		w := testLaws()
		w.jumps = test.jumps
		if got := lawsOf(w.linear(ledgerOf(lost, again, arrived(140, 1)))); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", name, got, test.want)
		}
	}
}

func TestWhatTheDiskHas(t *testing.T) {
	const aof = "/d/appendonly.aof.1.incr.aof"
	for _, test := range []struct {
		name           string
		lines          string
		durable, times int64
	}{
		{"nothing", "", 100, 0},
		{"written only", "7 write(8<AOF>, \"\"..., 20) = 20\n", 100, 0},
		{"synced", "7 write(8<AOF>, \"\"..., 20) = 20\n7 fdatasync(8<AOF>) = 0 (DELAYED)\n7 write(8<AOF>, \"\"..., 5) = 5\n", 120, 1},
		{"another file", "7 write(9<socket:[1]>, \"\"..., 20) = 20\n7 fdatasync(8<AOF>) = 0\n", 100, 1},
		{"killed within the sync", "7 write(8<AOF>, \"\"..., 20) = 20\n7 fdatasync(8<AOF> <unfinished ...>\n7 +++ killed by SIGKILL +++\n", 100, 0},
		{"written while another thread syncs", "7 write(8<AOF>, \"\"..., 20) = 20\n9 fdatasync(8<AOF> <unfinished ...>\n" +
			"7 write(8<AOF>, \"\"..., 5) = 5\n9 <... fdatasync resumed>) = 0 (DELAYED)\n", 120, 1},
		{"a write in two lines", "7 write(8<AOF>, \"\"..., 20 <unfinished ...>\n9 write(9<socket:[1]>, \"\"..., 3) = 3\n7 <... write resumed>) = 20\n7 fdatasync(8<AOF>) = 0\n", 120, 1},
		{"the sync failed", "7 write(8<AOF>, \"\"..., 20) = 20\n7 fdatasync(8<AOF>) = -1 EIO (Input/output error)\n", 100, 0},
	} {
		s := syncs{aof: aof, written: 100, durable: 100, begun: map[string]int64{}, writing: map[string]bool{}}
		for line := range strings.Lines(strings.ReplaceAll(test.lines, "AOF", aof)) {
			s.read(strings.TrimSuffix(line, "\n"))
		}
		if s.durable != test.durable || int64(s.times) != test.times {
			t.Errorf("%s: %d bytes by %d syncs, want %d by %d", test.name, s.durable, s.times, test.durable, test.times)
		}
	}
}

func TestGrowth(t *testing.T) {
	samples := func(n int, of func(n int) vitals) []vitals {
		all := make([]vitals, n)
		for i := range all {
			all[i] = of(i)
		}
		return all
	}
	steady := vitals{goroutines: 100, files: 100, rssKB: 50_000}
	for _, test := range []struct {
		name string
		of   func(n int) vitals
		want string
	}{
		{"steady", func(int) vitals { return steady }, ""},
		{"one that stands out", func(n int) vitals {
			v := steady
			if n == 25 {
				v.goroutines, v.rssKB = 900, 900_000
			}
			return v
		}, ""},
		{"warming up", func(n int) vitals { v := steady; v.rssKB -= max(0, 3-n) * 20_000; return v }, ""},
		{"memory", func(n int) vitals { v := steady; v.rssKB += 600 * n; return v }, "memory"},
		{"goroutines", func(n int) vitals { v := steady; v.goroutines += n; return v }, "goroutines"},
		{"files", func(n int) vitals { v := steady; v.files += n; return v }, "files"},
	} {
		got := strings.Join(growth(samples(30, test.of)), "; ")
		if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q", test.name, got)
		}
	}
	if len(growth(samples(2, func(int) vitals { return steady }))) == 0 {
		t.Error("two samples tell something")
	}
}
