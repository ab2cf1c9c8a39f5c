//go:build unix

package sourcetest

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Bench measures how quickly a source parks b.N messages, which lie in its broker,
// from the first on: connecting is not what is measured.
func Bench(b *testing.B, run func(context.Context) error, parked func() uint64) {
	b.ReportAllocs()
	b.ResetTimer()
	source := Start(b, run)
	var first time.Time
	var cpu time.Duration
	for done := uint64(0); done < uint64(b.N); time.Sleep(time.Millisecond) {
		done = parked()
		if first.IsZero() && done > 0 {
			first, cpu = time.Now(), CPUTime()
		}
	}
	Report(b, time.Since(first), CPUTime()-cpu)
	b.StopTimer()
	if err := source.Stop(); err != nil {
		b.Error(err)
	}
}

// Report reports the rate of b.N messages and what each has cost.
func Report(b *testing.B, took, cpu time.Duration) {
	b.ReportMetric(float64(b.N)/took.Seconds(), "messages/s")
	b.ReportMetric(float64(cpu)/float64(b.N)/1000, "cpu-µs/message")
}

// CPUTime is what this process has used.
func CPUTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Nowhere is a store that accepts all and keeps nothing.
type Nowhere struct{ core.Store }

// Park accepts.
func (Nowhere) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	return receipts(messages, nil)
}
