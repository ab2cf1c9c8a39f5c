//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
)

// host stands in for a test, as the owner of servers. A failure ends the
// goroutine of the row, as it would end a test.
type host struct {
	name string
	log  io.Writer
	dir  string

	mu      sync.Mutex
	dirs    int
	cleanup []func()
	skipped string
	failed  string
}

func newHost(name string, log io.Writer) (*host, error) {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return nil, fmt.Errorf("make directory of the run: %w", err)
	}
	return &host{name: name, log: log, dir: dir}, nil
}

// do runs f and what it left to clean up, and returns when both are over.
func (h *host) do(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
	for i := len(h.cleanup) - 1; i >= 0; i-- {
		h.cleanup[i]()
	}
}

func (h *host) Helper()      {}
func (h *host) Name() string { return h.name }

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanup = append(h.cleanup, f)
}

func (h *host) TempDir() string {
	h.mu.Lock()
	h.dirs++
	dir := filepath.Join(h.dir, strconv.Itoa(h.dirs))
	h.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.Fatalf("make a directory: %v", err)
	}
	return dir
}

func (h *host) Logf(format string, args ...any) { fmt.Fprintf(h.log, format+"\n", args...) }

// Skipf ends the row: it can't be tried here.
func (h *host) Skipf(format string, args ...any) {
	h.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Fatalf ends the row: the harness failed, not the bridge.
func (h *host) Fatalf(format string, args ...any) {
	h.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
