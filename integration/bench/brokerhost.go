//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// brokerHost stands in for a test, as the owner of servers. One goroutine at a
// time uses it; a failure ends that goroutine, as it would end a test.
type brokerHost struct {
	dir     string
	dirs    int
	cleanup []func()
	err     error
}

// startServer runs start, which may fail by ending its goroutine, and returns
// the end of what it started.
func startServer(start func(servers.TB)) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "delaybridge-bench")
	if err != nil {
		return nil, err
	}
	h := &brokerHost{dir: dir}
	done := make(chan struct{})
	go func() {
		defer close(done)
		start(h)
	}()
	<-done
	if h.err != nil {
		h.close()
		return nil, h.err
	}
	return h.close, nil
}

func (h *brokerHost) close() {
	for i := len(h.cleanup) - 1; i >= 0; i-- {
		h.cleanup[i]()
	}
	os.RemoveAll(h.dir)
}

func (h *brokerHost) Helper()             {}
func (h *brokerHost) Name() string        { return "bench" }
func (h *brokerHost) Cleanup(f func())    { h.cleanup = append(h.cleanup, f) }
func (h *brokerHost) Logf(string, ...any) {}

func (h *brokerHost) TempDir() string {
	h.dirs++
	dir := filepath.Join(h.dir, strconv.Itoa(h.dirs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.Fatalf("make a directory: %v", err)
	}
	return dir
}

func (h *brokerHost) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *brokerHost) Fatalf(format string, args ...any) {
	h.err = fmt.Errorf(format, args...)
	runtime.Goexit()
}
