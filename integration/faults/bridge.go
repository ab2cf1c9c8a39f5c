//go:build unix

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// bridge is one place for a process of `delaybridge serve`: the nemesis ends the
// process in it and starts the next.
type bridge struct {
	run    *run
	name   string
	config string   // file
	prefix []string // of the command, such as that of a network namespace
	binary string   // in place of the run's, if not empty

	mu    sync.Mutex
	life  int // which process this is, counted from 1
	url   string
	cmd   *exec.Cmd
	ended <-chan struct{}
	logs  *logs
}

// incarnation names the process in it, for the ledger.
func (b *bridge) incarnation() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%s%d", b.name, b.life)
}

// address is where the process listens; empty while there is none.
func (b *bridge) address() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.url
}

const bridgeReadyIn = 45 * time.Second

// startTries is how often a process is started whose Redis is in trouble, as by a
// supervisor.
const startTries = 5

// start starts a process, with a failpoint if it is not empty, and returns when
// it is ready.
func (b *bridge) start(failpoint string) {
	for range startTries {
		b.launch(failpoint)
		if b.awaitReady() {
			return
		}
		b.kill()
	}
	b.run.Fatalf("bridge %s is not ready:\n%s", b.name, b.logs)
}

func (b *bridge) launch(failpoint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life++
	name := fmt.Sprintf("%s%d", b.name, b.life)
	out, err := os.OpenFile(filepath.Join(b.run.dir, "arrived-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.run.Fatalf("open output of bridge %s: %v", name, err)
	}
	defer out.Close()
	argv := append(append([]string{}, b.prefix...), cmp.Or(b.binary, b.run.binary), "serve", "--config", b.config)
	b.cmd, b.logs = exec.Command(argv[0], argv[1:]...), newLogs(b.run.logFile(name))
	b.cmd.Stdout, b.cmd.Stderr = out, b.logs
	b.cmd.Env = append(append(os.Environ(), "DELAYBRIDGE_FAILPOINT="+failpoint), b.run.env...)
	if b.ended, err = start(b.cmd); err != nil {
		b.run.Fatalf("start bridge %s: %v", name, err)
	}
	b.run.tailPrinted(out.Name(), name)
}

// awaitReady tells whether the process came to listen.
func (b *bridge) awaitReady() bool {
	select {
	case addr := <-b.logs.ready:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.url = "http://" + addr
		return true
	case <-b.ended:
	case <-time.After(bridgeReadyIn):
	}
	return false
}

// kill ends the process as a crash does. It is no fault of the ledger's yet.
func (b *bridge) kill() {
	b.away()
	_ = b.cmd.Process.Kill() // it may have ended
	<-b.ended
}

func (b *bridge) away() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.url = ""
}

const stopIn = 30 * time.Second

// stop ends the process as an operator does, and tells what went wrong.
func (b *bridge) stop() error {
	b.away()
	if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("bridge %s had ended:\n%s", b.name, b.logs)
	}
	select {
	case <-b.ended:
	case <-time.After(stopIn):
		b.kill()
		return fmt.Errorf("bridge %s did not end within %s of an interrupt", b.name, stopIn)
	}
	if !b.cmd.ProcessState.Success() {
		return fmt.Errorf("bridge %s ended with %s:\n%s", b.name, b.cmd.ProcessState, b.logs)
	}
	return nil
}

func (b *bridge) signal(s syscall.Signal) { _ = b.cmd.Process.Signal(s) } // it may have ended

// awaitEnd tells whether the process ended by itself in time.
func (b *bridge) awaitEnd(within time.Duration) bool {
	select {
	case <-b.ended:
		b.away()
		return true
	case <-time.After(within):
		return false
	}
}

// awaitStopped tells whether the process was stopped by SIGSTOP in time.
func (b *bridge) awaitStopped(within time.Duration) bool {
	return poll.Holds(within, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
		_, rest, ok := strings.Cut(string(stat), ") ")
		return err == nil && ok && strings.HasPrefix(rest, "T")
	})
}

// vitals is what a process uses.
type vitals struct {
	pid, goroutines, files, sockets, rssKB int
}

var goroutinesLine = regexp.MustCompile(`(?m)^goroutines (\d+)$`)

// vitals asks the process, which must have been built with failpoints, and /proc.
// Where there is no /proc the zero value is returned.
func (b *bridge) vitals() vitals {
	v := vitals{pid: b.cmd.Process.Pid}
	before := len(b.logs.find(goroutinesLine))
	b.signal(syscall.SIGUSR1)
	var found []string
	if poll.Holds(2*time.Second, func() bool { found = b.logs.find(goroutinesLine); return len(found) > before }) {
		v.goroutines, _ = strconv.Atoi(found[len(found)-1])
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.pid))
	if err != nil {
		return vitals{}
	}
	v.files = len(files)
	for _, f := range files {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", v.pid, f.Name())); strings.HasPrefix(to, "socket:") {
			v.sockets++
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			v.rssKB, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return v
}

// logs keeps what a process logs, also in a file, and tells when it is ready.
type logs struct {
	mu    sync.Mutex
	text  bytes.Buffer
	file  *os.File
	ready chan string
	told  bool
}

func newLogs(path string) *logs {
	file, _ := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // without it, we still have the text
	return &logs{file: file, ready: make(chan string, 1)}
}

var readyLine = regexp.MustCompile(`msg=ready .*http=([0-9.:]+)`)

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.file != nil {
		_, _ = l.file.Write(p)
	}
	if !l.told {
		if found := readyLine.FindSubmatch(l.text.Bytes()); found != nil {
			l.told = true
			l.ready <- string(found[1])
		}
	}
	return len(p), nil
}

// find returns what the group of the pattern matched, each time.
func (l *logs) find(pattern *regexp.Regexp) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, match := range pattern.FindAllSubmatch(l.text.Bytes(), -1) {
		all = append(all, string(match[1]))
	}
	return all
}

const logTail = 3000

// String is the end of what was logged.
func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.Bytes()
	return string(text[max(0, len(text)-logTail):])
}
