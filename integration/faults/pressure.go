//go:build unix

package main

import (
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

// meter tells the pressure since it was made.
type meter struct {
	began    time.Time
	pressure time.Duration
}

func newMeter() meter { return meter{time.Now(), pressure()} }

func (m meter) share() float64 {
	return float64(pressure()-m.pressure) / float64(time.Since(m.began))
}
