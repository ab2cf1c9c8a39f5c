//go:build unix

package servers_test

import (
	"runtime"
	"testing"
)

// recordingTB ends the calling goroutine as a test would, and only notes how.
type recordingTB struct {
	testing.TB
	skipped, failed bool
}

func (r *recordingTB) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

func (r *recordingTB) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}
