package suite

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// recorder is a T outside of go test: it remembers what one case says.
type recorder struct {
	ctx context.Context

	mu              sync.Mutex
	failed, skipped bool
	log             []string
	cleanups        []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Logf(f string, args ...any)   { r.say(fmt.Sprintf(f, args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.Logf(f, args...); r.set(&r.failed) }

// Fatalf ends the goroutine, as in package testing.
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }

// Skipf ends the goroutine, as in package testing.
func (r *recorder) Skipf(f string, args ...any) {
	r.Logf(f, args...)
	r.set(&r.skipped)
	runtime.Goexit()
}

func (r *recorder) Failed() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }

// Cleanup has f run at the end of the case, the last one first.
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) set(flag *bool) { r.mu.Lock(); defer r.mu.Unlock(); *flag = true }

// maxLog bounds what is kept of a case that finds the same fault in each of
// thousands of messages.
const maxLog = 50

func (r *recorder) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch text = strings.TrimRight(text, "\n"); {
	case len(r.log) < maxLog:
		r.log = append(r.log, text)
	case len(r.log) == maxLog:
		r.log = append(r.log, "… and more")
	}
}

// run runs f in a goroutine of its own, which f may leave by Fatalf or
// Skipf, and waits for its end. A panic is a failure.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

// cleanUp runs the cleanups, the last one first, also those that they add.
func (r *recorder) cleanUp() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.run(last)
	}
}
