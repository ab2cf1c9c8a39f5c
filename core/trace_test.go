package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

const (
	traceOfTest  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentOfTest = "00-" + traceOfTest + "-00f067aa0ba902b7-01"
)

func TestTrace(t *testing.T) {
	type read struct {
		trace   string
		sampled bool
	}
	for header, want := range map[string]read{
		parentOfTest: {traceOfTest, true},
		"01-" + traceOfTest + "-00f067aa0ba902b7-03-later":           {traceOfTest, true},
		"00-" + traceOfTest + "-00f067aa0ba902b7-00":                 {traceOfTest, false},
		"00-" + traceOfTest + "-00f067aa0ba902b7-01-later":           {},
		"01-" + traceOfTest + "-00f067aa0ba902b7-01.":                {},
		"ff-" + traceOfTest + "-00f067aa0ba902b7-01":                 {},
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01":     {},
		"00-" + traceOfTest + "-0000000000000000-01":                 {},
		"00-" + strings.ToUpper(traceOfTest) + "-00f067aa0ba902b7-0": {},
		"00-" + traceOfTest + "-00f067aa0ba902b7-0g":                 {},
		"00-" + traceOfTest + "-00f067aa0ba902b7":                    {},
		"00_" + traceOfTest + "-00f067aa0ba902b7-01":                 {},
		"00-" + traceOfTest:                                          {}, "": {}, "-": {}, "\xff": {},
	} {
		m := &core.Message{Headers: []core.Header{{Name: "x"}, {Name: "Traceparent", Value: []byte(header)}}}
		got, ok := m.Trace()
		if string(got.ID) != want.trace || got.Sampled != want.sampled || ok != (want.trace != "") {
			t.Errorf("%q: %s, %v, %v", header, got.ID, got.Sampled, ok)
		}
	}
	if _, ok := (&core.Message{}).Trace(); ok {
		t.Error("a message without headers has a trace")
	}
}

func TestAddTrace(t *testing.T) {
	x, parent := core.Header{Name: "x", Value: []byte("1")}, core.Header{Name: "traceparent", Value: []byte(parentOfTest)}
	state := core.Header{Name: "tracestate", Value: []byte("a=b,c=d")}
	hop := core.Header{Name: core.HeaderHop, Value: []byte("1")}
	both := []string{"a=b", "c=d"}
	for name, test := range map[string]struct {
		limits  core.Limits
		has     []core.Header
		parents []string
		states  []string
		want    []core.Header
	}{
		"none":           {has: []core.Header{x}, states: both, want: []core.Header{x}},
		"parent":         {has: []core.Header{x}, parents: []string{parentOfTest}, want: []core.Header{x, parent}},
		"parent, state":  {parents: []string{parentOfTest}, states: both, want: []core.Header{parent, state}},
		"two parents":    {parents: []string{parentOfTest, parentOfTest}},
		"invalid":        {parents: []string{"00-1-2-3"}, states: both},
		"own":            {has: []core.Header{{Name: "TraceParent"}}, parents: []string{parentOfTest}, want: []core.Header{{Name: "TraceParent"}}},
		"room for one":   {limits: core.Limits{MaxHeaders: 2}, has: []core.Header{hop, x}, parents: []string{parentOfTest}, states: both, want: []core.Header{hop, x, parent}},
		"room for none":  {limits: core.Limits{MaxHeaders: 1}, has: []core.Header{x}, parents: []string{parentOfTest}, want: []core.Header{x}},
		"bytes for one":  {limits: core.Limits{MaxHeaderBytes: 80}, has: []core.Header{x}, parents: []string{parentOfTest}, states: both, want: []core.Header{x, parent}},
		"bytes for none": {limits: core.Limits{MaxHeaderBytes: 60}, has: []core.Header{x}, parents: []string{parentOfTest}, want: []core.Header{x}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &core.Message{Headers: slices.Clone(test.has)}
			test.limits.AddTrace([]*core.Message{m}, test.parents, test.states)
			if diff := cmp.Diff(test.want, m.Headers); diff != "" {
				t.Error(diff)
			}
		})
	}
}
