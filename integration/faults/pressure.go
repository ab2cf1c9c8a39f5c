//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// mostPressure is the share of a run's time in which something waited for a
// processor, above which a breach of a law tells nothing: then processes stand
// still for seconds without a fault of ours.
const mostPressure = 0.7

// pressure is how long something on this machine has waited for a processor so
// far, as Linux counts it (https://docs.kernel.org/accounting/psi.html). Where
// it is not counted it is zero.
func pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	_, total, _ := strings.Cut(string(text), "total=")
	total, _, _ = strings.Cut(total, "\n")
	micros, _ := strconv.ParseInt(total, 10, 64) // zero is known for nothing
	return time.Duration(micros) * time.Microsecond
}

// longestStall is how long this process may find that it did not run though
// it was its turn, as when the host of a virtual machine takes the processors.
const longestStall = 500 * time.Millisecond

// meter tells whether the machine let a run go on as it was meant to.
type meter struct {
	began    time.Time
	pressure time.Duration
	stood    time.Duration // the longest
}

func newMeter() *meter { return &meter{began: time.Now(), pressure: pressure()} }

// disturbed tells what was wrong with the machine; empty if nothing was.
func (m *meter) disturbed() string {
	share := float64(pressure()-m.pressure) / float64(time.Since(m.began))
	switch {
	case share > mostPressure:
		return fmt.Sprintf("something waited for a processor %.0f %% of the time", 100*share)
	case m.stood > longestStall:
		return fmt.Sprintf("the machine stalled for %s", m.stood.Round(time.Millisecond))
	}
	return ""
}
