package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func timelineRules() []rule {
	return []rule{
		{"what waits is counted in the step in which it is due", countsSteps},
		{"messages of every state", countsStates},
		{"of all buckets, priorities and sinks asked for", countsAll},
		{"as many steps as there may be", countsMost},
	}
}

// wantTimeline checks the counts of a query for Sink, or for those that it names.
func wantTimeline(t *suite, store core.Store, query core.TimelineQuery, before int, due []int, after int) {
	t.Helper()
	if query.Sinks == nil {
		query.Sinks = []string{Sink}
	}
	got, err := store.(core.Inspector).Timeline(patient(t), query)
	if err != nil {
		t.Fatalf("timeline %+v: %v", query, err)
	}
	if diff := cmp.Diff(append(append([]int{before}, due...), after), append(append([]int{got.Before}, got.Due...), got.After)); diff != "" {
		t.Errorf("timeline %+v (-want +got):\n%s", query, diff)
	}
}

func steps(from time.Time, step time.Duration, n int) core.TimelineQuery {
	return core.TimelineQuery{From: from, To: from.Add(time.Duration(n) * step), Step: step}
}

func countsSteps(t *suite) {
	store, from := t.open(1), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	wantTimeline(t, store, steps(from, time.Second, 3), 0, []int{0, 0, 0}, 0)
	for n, offset := range []time.Duration{-time.Minute, -time.Millisecond, 0, time.Millisecond, 999 * time.Millisecond, time.Second,
		2999 * time.Millisecond, 3 * time.Second, 24 * time.Hour} {
		park(t, store, message(fmt.Sprint("m", n), at(from.Add(offset))))
	}
	wantTimeline(t, store, steps(from, time.Second, 3), 2, []int{3, 1, 1}, 2)
	wantTimeline(t, store, steps(from, time.Millisecond, 2), 2, []int{1, 1}, 5)
	wantTimeline(t, store, steps(from.Add(-time.Hour), 2*time.Hour, 1), 0, []int{8}, 1)
	wantTimeline(t, store, steps(from.Add(48*time.Hour), time.Minute, 2), 9, []int{0, 0}, 0)
	wantTimeline(t, store, steps(time.UnixMilli(0), time.Hour, 1), 0, []int{0}, 9)
	wantTimeline(t, store, steps(time.Date(9990, 1, 1, 0, 0, 0, 1e6, time.UTC), time.Hour, 1), 9, []int{0}, 0)
}

func countsStates(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	everyState(t, store, o, "m")
	stats := readStats(t, store, Sink)[0]
	wantTimeline(t, store, steps(time.Now().Add(-24*time.Hour), 365*24*time.Hour, 2), 0, []int{stats.Scheduled, 0}, 0)
}

func countsAll(t *suite) {
	store, from := t.open(5), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	due := make([]int, 7)
	for n := range 210 {
		due[n%7]++
		park(t, store, message(fmt.Sprint("m", n), sink([]string{Sink, OtherSink}[n%2]), priority(n%3*4), at(from.Add(time.Duration(n%7)*time.Minute))))
	}
	query := steps(from, time.Minute, 7)
	query.Sinks = []string{Sink, OtherSink}
	wantTimeline(t, store, query, 0, due, 0)
	query.Sinks = []string{OtherSink}
	for n := range due {
		due[n] /= 2
	}
	wantTimeline(t, store, query, 0, due, 0)
}

func countsMost(t *suite) {
	store, from := t.open(3), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	due, messages := make([]int, core.MaxSteps), []*core.Message(nil)
	for n := range 3 * core.MaxSteps {
		step := n * n % core.MaxSteps
		due[step]++
		messages = append(messages, message(fmt.Sprint("m", n), at(from.Add(time.Duration(step)*time.Second))))
	}
	park(t, store, messages...)
	wantTimeline(t, store, steps(from, time.Second, core.MaxSteps), 0, due, 0)
}
