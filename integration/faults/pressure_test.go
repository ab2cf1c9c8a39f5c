//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

func TestMeterTellsADisturbedMachine(t *testing.T) {
	for name, test := range map[string]struct {
		pressure, stood time.Duration
		want            bool
	}{
		"calm":    {0, 20 * time.Millisecond, false},
		"pressed": {-time.Hour, 0, true}, // all of it since the run began
		"stalled": {0, time.Second, true},
	} {
		m := newMeter()
		m.pressure += test.pressure
		m.stood = test.stood
		m.began = m.began.Add(-time.Minute)
		if got := m.disturbed(); (got != "") != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhatAStallExcuses(t *testing.T) {
	for laws, want := range map[string]bool{
		"L6": true, "L7 L9": true, "L10": true, "spent L7": true,
		"L1": false, "L1 L7": false, "L1 spent": false, "L1 L6": false, "L2": false, "L3": false, "L4 L7": false, "L5": false, "L6 L8": false,
	} {
		var findings []finding
		for law := range strings.FieldsSeq(laws) {
			f := finding{law: law}
			if law == "spent" {
				f = finding{law: "L1", spent: true}
			}
			findings = append(findings, f)
		}
		if got := excusable(findings); got != want {
			t.Errorf("%s: %t", laws, got)
		}
	}
}
