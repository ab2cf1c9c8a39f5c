//go:build unix

package main

import (
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
	"github.com/delaybridge/delaybridge/integration/servers"
)

// bridge is one place for a process of `delaybridge serve`: the nemesis ends the
// process in it and starts the next.
type bridge struct {
	run    *run
	name   string
	config string   // file
	prefix []string // of the command, such as that of a network namespace
	binary string   // in place of the run's, if not empty

	process *servers.Bridge // the one now, or the last

	mu   sync.Mutex
	life int // which process this is, counted from 1
	url  string
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
	b.run.Fatalf("bridge %s is not ready:\n%s", b.name, b.process.Logs.Tail())
}

func (b *bridge) launch(failpoint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life++
	name := fmt.Sprintf("%s%d", b.name, b.life)
	out, err := os.OpenFile(filepath.Join(b.run.Dir(), "arrived-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.run.Fatalf("open output of bridge %s: %v", name, err)
	}
	defer out.Close()
	argv := append(append([]string{}, b.prefix...), cmp.Or(b.binary, b.run.binary), "serve", "--config", b.config)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = out
	cmd.Env = append(append(os.Environ(), "DELAYBRIDGE_FAILPOINT="+failpoint), b.run.env...)
	log, err := os.Create(b.run.logFile(name)) // open until the run is over
	if err != nil {
		b.run.Fatalf("open log of bridge %s: %v", name, err)
	}
	if b.process, err = servers.StartBridge(cmd, log); err != nil {
		b.run.Fatalf("start bridge %s: %v", name, err)
	}
	b.run.tailPrinted(out.Name(), name)
}

// awaitReady tells whether the process came to listen.
func (b *bridge) awaitReady() bool {
	url := b.process.Ready(bridgeReadyIn)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.url = url
	return url != ""
}

// kill ends the process as a crash does. It is no fault of the ledger's yet.
func (b *bridge) kill() {
	b.away()
	b.process.Kill()
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
	if err := b.process.Stop(stopIn); err != nil {
		return fmt.Errorf("bridge %s: %w", b.name, err)
	}
	return nil
}

func (b *bridge) signal(s syscall.Signal) { _ = b.process.Cmd.Process.Signal(s) } // it may have ended

// awaitEnd tells whether the process ended by itself in time.
func (b *bridge) awaitEnd(within time.Duration) bool {
	ended := b.process.HasEnded(within)
	if ended {
		b.away()
	}
	return ended
}

// awaitStopped reports whether the process was stopped by SIGSTOP in time.
func (b *bridge) awaitStopped(within time.Duration) bool {
	return poll.Holds(within, func() bool { return servers.Stopped(b.process.Cmd.Process.Pid) })
}

// vitals is what a process uses.
type vitals struct {
	pid, goroutines, files, sockets, rssKB int
}

var goroutinesLine = regexp.MustCompile(`(?m)^goroutines (\d+)$`)

// vitals asks the process, which must have been built with failpoints, and /proc.
// Where there is no /proc the zero value is returned.
func (b *bridge) vitals() vitals {
	v := vitals{pid: b.process.Cmd.Process.Pid}
	before := len(b.process.Logs.Find(goroutinesLine))
	b.signal(syscall.SIGUSR1)
	var found []string
	if poll.Holds(2*time.Second, func() bool { found = b.process.Logs.Find(goroutinesLine); return len(found) > before }) {
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
