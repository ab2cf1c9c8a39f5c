package sinktest

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB outside of go test: it remembers what one case says.
// Every method of testing.TB is here; the embedded interface, which is nil, is
// for the one that can't be written outside of package testing.
type recorder struct {
	testing.TB
	name string
	ctx  context.Context

	mu              sync.Mutex
	failed, skipped bool
	log             []string
	cleanups        []func()
}

func (r *recorder) Name() string             { return r.name }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Attr(key, value string)   { r.Logf("%s=%s", key, value) }
func (r *recorder) Output() io.Writer        { return recorderOutput{r} }

func (r *recorder) Log(args ...any)            { r.say(fmt.Sprintln(args...)) }
func (r *recorder) Logf(f string, args ...any) { r.say(fmt.Sprintf(f, args...)) }

func (r *recorder) Error(args ...any)            { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(f string, args ...any) { r.Logf(f, args...); r.Fail() }
func (r *recorder) Fatal(args ...any)            { r.Log(args...); r.FailNow() }
func (r *recorder) Fatalf(f string, args ...any) { r.Logf(f, args...); r.FailNow() }
func (r *recorder) Skip(args ...any)             { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(f string, args ...any)  { r.Logf(f, args...); r.SkipNow() }

func (r *recorder) Fail()    { r.set(&r.failed) }
func (r *recorder) FailNow() { r.Fail(); runtime.Goexit() }
func (r *recorder) SkipNow() { r.set(&r.skipped); runtime.Goexit() }

func (r *recorder) Failed() bool  { return r.get(&r.failed) }
func (r *recorder) Skipped() bool { return r.get(&r.skipped) }

// Setenv and Chdir would change the process, which is not a test's own here.
func (r *recorder) Setenv(string, string) { r.Fatal("the environment can't be changed here") }
func (r *recorder) Chdir(string)          { r.Fatal("the working directory can't be changed here") }

// TempDir returns a new directory that is removed at the end of the case.
func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "sinktest-")
	if err != nil {
		r.Fatalf("make a directory: %v", err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Errorf("remove a directory: %v", err)
		}
	})
	return dir
}

// ArtifactDir is a TempDir: artifacts are not kept.
func (r *recorder) ArtifactDir() string { return r.TempDir() }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) set(flag *bool) { r.mu.Lock(); defer r.mu.Unlock(); *flag = true }

func (r *recorder) get(flag *bool) bool { r.mu.Lock(); defer r.mu.Unlock(); return *flag }

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

type recorderOutput struct{ *recorder }

func (o recorderOutput) Write(p []byte) (int, error) {
	o.say(string(p))
	return len(p), nil
}

// run runs f in a goroutine of its own, which f may leave by FailNow or
// SkipNow, and waits for its end. A panic is a failure.
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
