//go:build unix

package main

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

// host stands in for a test, as the owner of servers. A failure ends the
// goroutine that starts a server, as it would end a test.
type host struct {
	log io.Writer
	dir string

	mu      sync.Mutex
	dirs    int
	cleanup []func()
	errs    []error
}

func newHost(log io.Writer) (*host, error) {
	dir, err := os.MkdirTemp("", "delaybridge-brokers-")
	if err != nil {
		return nil, err
	}
	return &host{log: log, dir: dir}, nil
}

// close ends the servers, the last one first, and removes what they stored.
func (h *host) close() {
	for i := len(h.cleanup) - 1; i >= 0; i-- {
		h.cleanup[i]()
	}
	os.RemoveAll(h.dir)
}

func (h *host) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.errs...)
}

func (h *host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *host) Helper()      {}
func (h *host) Name() string { return "brokers" }

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

func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *host) Fatalf(format string, args ...any) {
	h.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}
