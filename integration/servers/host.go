//go:build unix

package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
)

// Host stands in for a test where a program starts servers: it is a TB. Safe for
// concurrent use.
type Host struct {
	name string
	log  io.Writer
	dir  string

	mu      sync.Mutex
	dirs    int
	cleanup []func()
	skipped error
	failed  []error
}

// NewHost makes a directory for what the servers store. What is logged goes to log.
func NewHost(name string, log io.Writer) (*Host, error) {
	dir, err := os.MkdirTemp("", "delaybridge-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for servers: %w", err)
	}
	return &Host{name: name, log: log, dir: dir}, nil
}

// Do returns when f is over, which Fatalf and Skipf end as they end a test.
func (h *Host) Do(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

// Close ends the servers, the last one first, and leaves their directories.
func (h *Host) Close() {
	for i := len(h.cleanup) - 1; i >= 0; i-- {
		h.cleanup[i]()
	}
}

// Dir is where the directories of the servers are.
func (h *Host) Dir() string { return h.dir }

// Failed is what was given to Fatalf.
func (h *Host) Failed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.failed...)
}

// Skipped is what was given to Skipf.
func (h *Host) Skipped() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.skipped
}

// Helper does nothing.
func (h *Host) Helper() {}

// Name is that given to NewHost.
func (h *Host) Name() string { return h.name }

// Cleanup has Close call f.
func (h *Host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanup = append(h.cleanup, f)
}

// TempDir makes a directory.
func (h *Host) TempDir() string {
	h.mu.Lock()
	h.dirs++
	dir := filepath.Join(h.dir, strconv.Itoa(h.dirs))
	h.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.Fatalf("make a directory: %v", err)
	}
	return dir
}

// Logf writes a line to the log.
func (h *Host) Logf(format string, args ...any) { fmt.Fprintf(h.log, format+"\n", args...) }

// Skipf ends the goroutine that calls it.
func (h *Host) Skipf(format string, args ...any) {
	h.mu.Lock()
	h.skipped = fmt.Errorf(format, args...)
	h.mu.Unlock()
	runtime.Goexit()
}

// Fatalf ends the goroutine that calls it.
func (h *Host) Fatalf(format string, args ...any) {
	h.mu.Lock()
	h.failed = append(h.failed, fmt.Errorf(format, args...))
	h.mu.Unlock()
	runtime.Goexit()
}
