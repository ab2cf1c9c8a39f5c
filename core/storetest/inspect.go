package storetest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func inspectRules() []rule {
	return []rule{
		{"list shows what waits, without bodies", listShows},
		{"list shows headers and options of any size", listLargeHeaders},
		{"list by state", listByState},
		{"list by topic and due time", listFilters},
		{"list in order over sinks and buckets", listInOrder},
		{"dead letters that died at once in order of acceptance", listDeadInOrder},
		{"pages of many with equal due times", listPages},
		{"a cursor is for its query only", badCursors},
		{"stats of what waits", statsOfWaiting},
		{"stats of every state", statsOfEveryState},
	}
}

// list returns the one page that a query has.
func list(t reporter, store core.Store, query core.Query) core.Page {
	t.Helper()
	if query.Sinks == nil {
		query.Sinks = []string{Sink}
	}
	if query.Limit == 0 {
		query.Limit = core.MaxPage
	}
	page, err := store.(core.Inspector).List(patient(t), query)
	if err != nil {
		t.Fatalf("list %+v: %v", query, err)
	}
	return page
}

// walk returns all entries of a query, page by page.
func walk(t reporter, store core.Store, query core.Query) []core.Entry {
	t.Helper()
	var entries []core.Entry
	for range 10_000 {
		page := list(t, store, query)
		if query.Limit > 0 && len(page.Entries) > query.Limit {
			t.Fatalf("page of %d entries, limit %d", len(page.Entries), query.Limit)
		}
		entries = append(entries, page.Entries...)
		if page.Next == "" {
			return entries
		}
		query.Cursor = page.Next
	}
	t.Fatalf("list does not come to an end")
	return nil
}

func entryIDs(entries []core.Entry) []string {
	list := make([]string, len(entries))
	for n, e := range entries {
		list[n] = e.Message.ID
	}
	return list
}

func wantListed(t reporter, store core.Store, query core.Query, want ...string) {
	t.Helper()
	got := entryIDs(walk(t, store, query))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, append([]string{}, got...)); diff != "" {
		t.Errorf("list %+v (-want +got):\n%s", query, diff)
	}
}

func listShows(t *suite) {
	store := t.open(3)
	m := message("m", later(), key("k"), priority(4))
	m.Headers = []core.Header{{Name: "h", Value: []byte("v")}}
	due := park(t, store, clone(m))[0].DeliverAt
	entries := walk(t, store, core.Query{})
	if len(entries) != 1 {
		t.Fatalf("%d entries, want 1", len(entries))
	}
	e := entries[0]
	if e.Message.Body != nil || e.BodySize != len(m.Body) || e.State != core.Scheduled || !e.Due.Equal(due) || !e.Message.DeliverAt.Equal(due) || e.MayHaveBeenSent {
		t.Errorf("entry %+v of %+v", e, e.Message)
	}
	m.Body = nil
	wantContent(t, e.Message, m)
	if got := get(t, store, ref("m")); got.BodySize != e.BodySize || len(got.Message.Body) != e.BodySize {
		t.Errorf("get: body of %d bytes, size %d, want %d", len(got.Message.Body), got.BodySize, e.BodySize)
	}
}

func listLargeHeaders(t *suite) {
	store := t.open(1)
	for n, size := range []int{0, 1, 126, 127, 128, 16_382, 16_383, 60 << 10, 200 << 10} {
		m := message(fmt.Sprint("m", n), later(), key(strings.Repeat("k", size%1000)))
		m.Headers = []core.Header{{Name: "none"}, {Name: "empty", Value: []byte{}}, {Name: "h", Value: bytes.Repeat([]byte("v"), size)}, {Name: "last", Value: []byte("v")}}
		m.Options = map[string]string{"a": strings.Repeat("o", size%1000), "b": ""}
		m.Body = make([]byte, size)
		park(t, store, clone(m))
		e := walk(t, store, core.Query{})[n]
		if e.Error != "" || e.BodySize != size {
			t.Errorf("%d bytes: error %q, body of %d", size, e.Error, e.BodySize)
		}
		m.Body = nil
		wantContent(t, e.Message, m)
	}
}

func listByState(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	everyState(t, store, o, "m")
	tests := []struct {
		states []core.State
		want   []string
	}{
		{nil, []string{"m-scheduled", "m-retrying", "m-delivering"}},
		{[]core.State{core.Scheduled}, []string{"m-scheduled"}},
		{[]core.State{core.Retrying}, []string{"m-retrying"}},
		{[]core.State{core.Delivering}, []string{"m-delivering"}},
		{[]core.State{core.Delivering, core.Scheduled}, []string{"m-scheduled", "m-delivering"}},
		{[]core.State{core.Dead}, []string{"m-dead"}},
		{[]core.State{core.Expired}, []string{"m-expired"}},
		{[]core.State{core.Dead, core.Expired}, []string{"m-dead", "m-expired"}},
	}
	for _, test := range tests {
		wantListed(t, store, core.Query{States: test.states}, test.want...)
		wantListed(t, store, core.Query{States: test.states, Limit: 1}, test.want...)
	}
	for _, e := range walk(t, store, core.Query{}) {
		if "m-"+string(e.State) != e.Message.ID {
			t.Errorf("%s is listed as %s", e.Message.ID, e.State)
		}
	}
}

func listFilters(t *suite) {
	store, due := t.open(3), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	step := func(n int) time.Time { return due.Add(time.Duration(n) * time.Millisecond) }
	park(t, store,
		message("a0", topic("a"), at(step(0))), message("a1", topic("a"), at(step(1))), message("a2", topic("a"), at(step(2))),
		message("b1", topic("b"), at(step(1))), message("ab", topic("ab"), at(step(1))))
	tests := []struct {
		query core.Query
		want  []string
	}{
		{core.Query{Topic: "a"}, []string{"a0", "a1", "a2"}},
		{core.Query{Topic: "c"}, []string{}},
		{core.Query{DueAfter: step(1)}, []string{"a1", "a2", "b1", "ab"}},
		{core.Query{DueBefore: step(1)}, []string{"a0"}},
		{core.Query{DueAfter: step(1), DueBefore: step(2), Topic: "b"}, []string{"b1"}},
		{core.Query{DueAfter: step(3)}, []string{}},
		{core.Query{Sinks: []string{OtherSink}}, []string{}},
	}
	for _, test := range tests {
		wantListed(t, store, test.query, test.want...)
		test.query.Limit = 1
		wantListed(t, store, test.query, test.want...)
	}
}

func listInOrder(t *suite) {
	store, due := t.open(4), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for n := range 60 {
		name := []string{Sink, OtherSink}[n%2]
		park(t, store, message(fmt.Sprint("m", n), sink(name), at(due.Add(time.Duration(n*37%60)*time.Second))))
	}
	entries := walk(t, store, core.Query{Sinks: []string{Sink, OtherSink}, Limit: 7})
	if len(entries) != 60 {
		t.Fatalf("%d entries, want 60", len(entries))
	}
	for n := 1; n < len(entries); n++ {
		if entries[n].Due.Before(entries[n-1].Due) {
			t.Errorf("entry %d is due at %s, the one before at %s", n, entries[n].Due, entries[n-1].Due)
		}
	}
}

func listDeadInOrder(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	park(t, store, message("c"), message("a", priority(3)), message("b", priority(core.MaxPriority)))
	wantIDs(t, o.awaitAll(3).Messages, "b", "a", "c")
	o.settle(deadLetter("a", 1), expired("b", 0), deadLetter("c", 1))
	for _, limit := range []int{1, 2, core.MaxPage} {
		got := entryIDs(walk(t, store, core.Query{States: []core.State{core.Dead, core.Expired}, Limit: limit}))
		if diff := cmp.Diff([]string{"c", "a", "b"}, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
}

func listPages(t *suite) {
	const n = 1000
	store, due := t.open(3), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	want := make([]string, n)
	messages := make([]*core.Message, n)
	for i := range n {
		want[i] = fmt.Sprintf("m%04d", i)
		messages[i] = message(want[i], priority(i%3), at(due))
	}
	park(t, store, messages...)
	for _, limit := range []int{1, 7, 100, core.MaxPage} {
		entries := walk(t, store, core.Query{Limit: limit})
		got := entryIDs(entries)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %d entries of %d, or repeats", limit, len(got), n)
		}
		wantLeavingOrder(t, entries, 3)
	}
}

// wantLeavingOrder checks entries with equal due times: buckets follow each
// other, and in each the order is that of leaving.
func wantLeavingOrder(t reporter, entries []core.Entry, buckets int) {
	t.Helper()
	rank := func(e core.Entry) string {
		return fmt.Sprintf("%04d %d %s", core.BucketOf(nil, e.Message.ID, buckets), core.MaxPriority-e.Message.Priority, e.Message.ID)
	}
	if !slices.IsSortedFunc(entries, func(a, b core.Entry) int { return strings.Compare(rank(a), rank(b)) }) {
		t.Errorf("entries with equal due times are not by bucket, priority and acceptance")
	}
}

func badCursors(t *suite) {
	store := t.open(2)
	park(t, store, message("a", later()), message("b", later()), message("c", later()))
	base := core.Query{Sinks: []string{Sink}, Limit: 1}
	first := list(t, store, base)
	if first.Next == "" {
		t.Fatal("no cursor after one of three")
	}
	tests := map[string]func(*core.Query){
		"garbage":      func(q *core.Query) { q.Cursor = "garbage" },
		"binary":       func(q *core.Query) { q.Cursor = "\x00\xff" },
		"encoded":      func(q *core.Query) { q.Cursor = base64.RawURLEncoding.EncodeToString([]byte("{}")) },
		"cut":          func(q *core.Query) { q.Cursor = q.Cursor[:len(q.Cursor)-1] },
		"extended":     func(q *core.Query) { q.Cursor += "AAAA" },
		"other topic":  func(q *core.Query) { q.Topic = "topic" },
		"other sinks":  func(q *core.Query) { q.Sinks = []string{OtherSink} },
		"more sinks":   func(q *core.Query) { q.Sinks = []string{Sink, OtherSink} },
		"other states": func(q *core.Query) { q.States = []core.State{core.Dead} },
		"due after":    func(q *core.Query) { q.DueAfter = time.Now() },
		"due before":   func(q *core.Query) { q.DueBefore = time.Now().Add(24 * time.Hour) },
	}
	for name, edit := range tests {
		query := base
		query.Cursor = first.Next
		edit(&query)
		if page, err := store.(core.Inspector).List(patient(t), query); !errors.Is(err, core.ErrBadCursor) {
			t.Errorf("%s: %d entries, err %v; want %v", name, len(page.Entries), err, core.ErrBadCursor)
		}
	}
	base.Cursor, base.Limit = first.Next, 2
	if rest := list(t, store, base); len(rest.Entries) != 2 || rest.Next != "" {
		t.Errorf("the rest, by two: %v, next %q", entryIDs(rest.Entries), rest.Next)
	}
}

// readStats returns the stats of each sink.
func readStats(t reporter, store core.Store, sinks ...string) []core.SinkStats {
	t.Helper()
	stats, err := store.(core.Inspector).Stats(patient(t), sinks...)
	if err != nil || len(stats) != len(sinks) {
		t.Fatalf("stats: %d for %d sinks, err %v", len(stats), len(sinks), err)
	}
	return stats
}

func statsOfWaiting(t *suite) {
	store := t.open(2)
	want := []core.SinkStats{{Sink: OtherSink, Buckets: 2}, {Sink: Sink, Buckets: 2}}
	if diff := cmp.Diff(want, readStats(t, store, OtherSink, Sink)); diff != "" {
		t.Errorf("stats of an empty store (-want +got):\n%s", diff)
	}
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	park(t, store, message("late", at(due.Add(time.Hour)), key(keyIn(0, 2))), message("soon", at(due), key(keyIn(1, 2))))
	want[1].Scheduled, want[1].NextDue = 2, due
	if diff := cmp.Diff(want, readStats(t, store, OtherSink, Sink)); diff != "" {
		t.Errorf("stats of what waits (-want +got):\n%s", diff)
	}
	park(t, store, message("urgent", at(due.Add(-time.Minute)), key(keyIn(1, 2)), priority(9)))
	want[1].Scheduled, want[1].NextDue = 3, due.Add(-time.Minute)
	if diff := cmp.Diff(want, readStats(t, store, OtherSink, Sink)); diff != "" {
		t.Errorf("stats of what waits (-want +got):\n%s", diff)
	}
}

func statsOfEveryState(t *suite) {
	store := t.open(1)
	o := own(t, store, Sink, 1)
	everyState(t, store, o, "m", "n")
	got := readStats(t, store, Sink)[0]
	if got.Overdue < 0 || got.Overdue > time.Minute {
		t.Errorf("what is due is %s overdue", got.Overdue)
	}
	got.NextDue, got.Overdue = time.Time{}, 0
	if diff := cmp.Diff(core.SinkStats{Sink: Sink, Scheduled: 6, Due: 2, Retrying: 2, Dead: 4, Buckets: 1, Owned: 1}, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	o.stop()
	if got := readStats(t, store, Sink)[0]; got.Owned != 0 {
		t.Errorf("%d buckets are owned after Serve has ended", got.Owned)
	}
}
