package sinktest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// record runs one case and keeps what it says from t.
func record(t *testing.T, c testCase, kit Kit) *recorder {
	r := &recorder{TB: t}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.cleanUp(cancel)
		c.run(newEnv(r, kit))
	}()
	<-done
	return r
}

// recorder is a testing.TB that remembers instead of reporting.
type recorder struct {
	testing.TB
	ctx      context.Context
	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(string, ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }

// cleanUp runs the cleanups, the last one first.
func (r *recorder) cleanUp(cancel context.CancelFunc) {
	cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
