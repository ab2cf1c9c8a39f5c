//go:build unix

package main

import (
	"testing"
	"time"
)

func TestMeterTellsADisturbedMachine(t *testing.T) {
	for name, test := range map[string]struct {
		pressure, stood time.Duration
		want            bool
	}{
		"calm":        {0, 20 * time.Millisecond, false},
		"pressed":     {-time.Hour, 0, true}, // all of it since the run began
		"stood still": {0, time.Second, true},
	} {
		m := newMeter()
		m.pressure += test.pressure
		m.stood.Store(int64(test.stood))
		m.began = m.began.Add(-time.Minute)
		if got := m.disturbed(); (got != "") != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestMeterRunsUntilStop(t *testing.T) {
	m, ended := newMeter(), make(chan struct{})
	go func() { m.run(); close(ended) }()
	m.stop()
	<-ended
}
