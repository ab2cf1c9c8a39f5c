package sinktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

func honest(s *memory) core.Sink { return s }

func tally(results []Result) map[Status]int {
	n := map[Status]int{}
	for _, r := range results {
		n[r.Status]++
	}
	return n
}

// TestCheck: what Run finds as a test, Check finds without one.
func TestCheck(t *testing.T) {
	var watched []Result
	results := Check(t.Context(), newBroker().patientKit(), func(r Result) { watched = append(watched, r) })
	if n := tally(results); len(results) != len(cases) || n[Passed] != len(cases) {
		t.Errorf("%v, want all %d passed", n, len(cases))
	}
	if len(watched) != len(results) {
		t.Errorf("watched %d of %d results", len(watched), len(results))
	}
	for _, r := range results {
		if r.Status != Passed {
			t.Errorf("%s: %s: %q", r.Name, r.Status, r.Log)
		}
		if r.Duration <= 0 {
			t.Errorf("%s took no time", r.Name)
		}
	}
}

func TestCheckFindsAMutant(t *testing.T) {
	liar := func(s *memory) core.Sink {
		return &mutant{memory: s, deliver: func(context.Context, []*core.Message) error { return nil }}
	}
	kit := newBroker().kit(liar)
	kit.ReadTimeout = kit.Quiet
	r := check(t.Context(), cases[0], kit)
	if r.Status != Failed || !slices.ContainsFunc(r.Log, func(s string) bool { return strings.HasPrefix(s, "lost: ") }) {
		t.Errorf("%s: %q, want failed, as the message is lost", r.Status, r.Log)
	}
}

// TestCheckWithoutReader: what does not need to be read is still found.
func TestCheckWithoutReader(t *testing.T) {
	kit := newBroker().kit(honest)
	kit.Consume = nil
	r := check(t.Context(), cases[0], kit)
	if r.Status != Skipped || !slices.Equal(r.Log, []string{"capability reader not declared"}) {
		t.Errorf("%s: %q, want skipped for want of a reader", r.Status, r.Log)
	}
	kit = newBroker().kit(func(s *memory) core.Sink {
		return &mutant{memory: s, deliver: func(context.Context, []*core.Message) error { return errors.New("no") }}
	})
	kit.Consume = nil
	if r := check(t.Context(), cases[0], kit); r.Status != Failed {
		t.Errorf("%s: %q, want failed", r.Status, r.Log)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := Check(ctx, newBroker().patientKit(), func(r Result) {
		if r.Name == cases[2].name {
			cancel()
		}
	})
	if n := tally(results); n[Passed] != 3 || n[Skipped] != len(cases)-3 {
		t.Errorf("%v, want 3 passed and the others skipped", n)
	}
	if last := results[len(results)-1]; len(last.Log) != 1 || !strings.Contains(last.Log[0], "context canceled") {
		t.Errorf("the last one says %q", last.Log)
	}
}

// TestRecorder: cases and kits may use all of testing.TB.
func TestRecorder(t *testing.T) {
	var order []string
	results := map[string]func(tb testing.TB){
		"passed":  func(tb testing.TB) { tb.Log("a", 1); tb.Attr("k", "v"); tb.TempDir(); tb.Output().Write([]byte("x\n")) },
		"failed":  func(tb testing.TB) { tb.Cleanup(func() { tb.Error("late") }) },
		"skipped": func(tb testing.TB) { tb.Skip("why") },
	}
	for want, do := range results {
		if r := check(t.Context(), testCase{want, func(e *env) { do(e.TB) }}, Kit{}); string(r.Status) != want {
			t.Errorf("%s: %s %q", want, r.Status, r.Log)
		}
	}
	for name, do := range map[string]func(tb testing.TB){
		"Fatal": func(tb testing.TB) { tb.Fatal("x") }, "FailNow": func(tb testing.TB) { tb.FailNow() },
		"Setenv": func(tb testing.TB) { tb.Setenv("A", "b") }, "Chdir": func(tb testing.TB) { tb.Chdir("/") },
		"panic": func(testing.TB) { panic("x") },
	} {
		after := false
		r := check(t.Context(), testCase{name, func(e *env) { do(e.TB); after = true }}, Kit{})
		if r.Status != Failed || after {
			t.Errorf("%s: %s, and went on: %t", name, r.Status, after)
		}
	}
	check(t.Context(), testCase{"cleanups", func(e *env) {
		e.Cleanup(func() { order = append(order, "first") })
		e.Cleanup(func() {
			order = append(order, "last")
			e.Cleanup(func() { order = append(order, "added") })
			panic("a cleanup must not keep the others from running")
		})
	}}, Kit{})
	if !slices.Equal(order, []string{"last", "added", "first"}) {
		t.Errorf("cleanups ran in the order %q", order)
	}
}
