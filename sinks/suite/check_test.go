package suite

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
	results := Check(t.Context(), cases, newBroker().patientKit(), func(r Result) { watched = append(watched, r) })
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

// TestNullBodyMayBeRefused: a sink that can't carry a null body may say so, or send an
// empty one, but not fail to deliver what it has let pass.
func TestNullBodyMayBeRefused(t *testing.T) {
	kitOf := func(check, deliver func(*core.Message) error) plainKit {
		kit := newBroker().kit(func(s *memory) core.Sink {
			return &mutant{memory: s, check: check, deliver: func(ctx context.Context, batch []*core.Message) error {
				if err := core.CheckEach(ctx, batch, deliver); err != nil {
					return err
				}
				return s.Deliver(ctx, batch)
			}}
		})
		kit.Can = slices.DeleteFunc(kit.Can, func(c Capability) bool { return c == NullBody })
		return kit
	}
	accept := func(*core.Message) error { return nil }
	refuse := func(m *core.Message) error {
		if m.Body == nil {
			return core.Classify(core.Permanent, core.Invalidf("body", "must not be null"))
		}
		return nil
	}
	for name, test := range map[string]struct {
		kit  plainKit
		want Status
	}{
		"refused": {kitOf(refuse, refuse), Skipped}, "let pass and failed": {kitOf(accept, refuse), Failed}, "sent as empty": {kitOf(accept, accept), Passed},
	} {
		if r := check(t.Context(), caseOf("K4"), test.kit); r.Status != test.want {
			t.Errorf("%s: %s %q, want %s", name, r.Status, r.Log, test.want)
		}
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := Check(ctx, cases, newBroker().patientKit(), func(r Result) {
		if r.Name == cases[2].Name {
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

// TestRecorder: what a case says and how it leaves is what becomes of it.
func TestRecorder(t *testing.T) {
	var order []string
	results := map[string]func(tb T){
		"passed":  func(tb T) { tb.Logf("a %d", 1) },
		"failed":  func(tb T) { tb.Cleanup(func() { tb.Errorf("late") }) },
		"skipped": func(tb T) { tb.Skipf("why") },
	}
	for want, do := range results {
		if r := check(t.Context(), Case{want, func(e *env) { do(e.T) }}, plainKit{}); string(r.Status) != want {
			t.Errorf("%s: %s %q", want, r.Status, r.Log)
		}
	}
	for name, do := range map[string]func(tb T){
		"Fatalf": func(tb T) { tb.Fatalf("x") }, "panic": func(T) { panic("x") },
	} {
		after := false
		r := check(t.Context(), Case{name, func(e *env) { do(e.T); after = true }}, plainKit{})
		if r.Status != Failed || after {
			t.Errorf("%s: %s, and went on: %t", name, r.Status, after)
		}
	}
	check(t.Context(), Case{"cleanups", func(e *env) {
		e.Cleanup(func() { order = append(order, "first") })
		e.Cleanup(func() {
			order = append(order, "last")
			e.Cleanup(func() { order = append(order, "added") })
			panic("a cleanup must not keep the others from running")
		})
	}}, plainKit{})
	if !slices.Equal(order, []string{"last", "added", "first"}) {
		t.Errorf("cleanups ran in the order %q", order)
	}
}
