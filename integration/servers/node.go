//go:build unix

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// Node is one server process in the hands of a test.
type Node struct {
	t       TB
	what    string       // it is, for messages
	process *process     // nil if others started it
	prepare func() error // before each start; nil: nothing is to be done
	readyIn time.Duration
	ready   func() error
}

const stopIn = 60 * time.Second

// Start starts the server after a Kill or Stop, on the same ports and directory,
// and returns when it is ready to work.
func (n *Node) Start() {
	n.t.Helper()
	n.launch()
	n.await("get ready", n.ready)
}

// launch is Start without the wait.
func (n *Node) launch() {
	n.t.Helper()
	p := n.own()
	if p.running() {
		n.t.Fatalf("%s is running", n.what)
	}
	if n.prepare != nil {
		if err := n.prepare(); err != nil {
			n.t.Fatalf("prepare %s: %v", n.what, err)
		}
	}
	if err := p.start(); err != nil {
		n.t.Fatalf("%v", err)
	}
}

// Kill ends the server as kill -9 does.
func (n *Node) Kill() { n.t.Helper(); n.own().kill() }

// Stop ends the server in order.
func (n *Node) Stop() { n.t.Helper(); n.own().stop(stopIn) }

// Restart is Stop and Start.
func (n *Node) Restart() { n.t.Helper(); n.Stop(); n.Start() }

// Pause freezes the server: connections stay open and nothing answers. It returns when
// nothing of the server runs any more.
func (n *Node) Pause() {
	n.t.Helper()
	p := n.own()
	p.signal(syscall.SIGSTOP)
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	if _, err := os.Stat("/proc/self/task"); err == nil && !poll.Holds(stopIn, func() bool { return Stopped(pid) }) {
		n.t.Fatalf("%s was not stopped by SIGSTOP", n.what)
	}
}

// Stopped reports whether SIGSTOP has reached all threads of a process, as kill(2) does
// not wait for that. It needs /proc.
func Stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, stat := range stats {
		if text, err := os.ReadFile(stat); err != nil || !strings.Contains(string(text), ") T ") {
			return false
		}
	}
	return len(stats) > 0
}

// Resume ends a Pause.
func (n *Node) Resume() { n.t.Helper(); n.own().signal(syscall.SIGCONT) }

// Log returns the end of what the server has logged.
func (n *Node) Log() string { n.t.Helper(); return n.own().log() }

// own skips the test if the server is not ours to stop.
func (n *Node) own() *process {
	n.t.Helper()
	if n.process == nil {
		n.t.Skipf("needs a server of its own, and %s was started by others", n.what)
	}
	return n.process
}

// await polls until holds returns nil, or ends the test and shows the log, also if the
// server ends.
func (n *Node) await(verb string, holds func() error) {
	n.t.Helper()
	p := n.own()
	var err error
	poll.Holds(n.readyIn, func() bool { err = holds(); return err == nil || !p.running() })
	if err != nil {
		n.t.Fatalf("%s did not %s: %v\n%s", n.what, verb, err, p.log())
	}
}
