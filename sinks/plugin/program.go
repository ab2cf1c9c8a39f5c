package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// program is one run of a plugin's executable, together with all that it starts:
// the library starts and ends the plugin through it. It is not used again.
type program struct {
	path string
	args []string
	mtls bool
	out  *output

	cmd      *exec.Cmd
	toHost   *io.PipeReader // what the library may read of stdout: the handshake
	toReader *io.PipeWriter
	stdout   *os.File
	stderr   *os.File
	readers  sync.WaitGroup

	ended  chan struct{} // closed when the process has been reaped and its group killed
	exited chan struct{} // closed when, after that, all that it printed has been read
	exit   error         // nil: it ended with code 0; valid when ended is closed

	mu     sync.Mutex
	number int // of the process; 0: not started
	reaped bool
	killed bool  // by us
	fault  error // what was wrong with the handshake
}

var _ runner.Runner = (*program)(nil)

// drainTime is how long, after a process has ended, what it printed is still
// read if somebody has inherited the other end.
const drainTime = 2 * time.Second

func newProgram(path string, args []string, mtls bool, out *output) *program {
	p := &program{path: path, args: args, mtls: mtls, out: out, ended: make(chan struct{}), exited: make(chan struct{})}
	p.toHost, p.toReader = io.Pipe()
	return p
}

// setEnv takes over the variables that the library has added; it comes before Start.
func (p *program) setEnv(env []string) {
	p.cmd = &exec.Cmd{Path: p.path, Args: append([]string{p.path}, p.args...), Env: env, SysProcAttr: groupAttributes()}
}

// Start starts the process and what waits for its end.
func (p *program) Start(context.Context) error {
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		closeAll(stdout, stdoutEnd)
		return fmt.Errorf("make a pipe: %w", err)
	}
	p.stdout, p.stderr = stdout, stderr
	p.cmd.Stdout, p.cmd.Stderr = stdoutEnd, stderrEnd
	started := make(chan error)
	go p.live(started)
	err = <-started
	closeAll(stdoutEnd, stderrEnd)
	if err != nil {
		closeAll(stdout, stderr)
		return p.explainStart(err)
	}
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// live starts the process and waits for it. It keeps its thread for as long, as
// the kernel kills the process when the thread that started it ends.
func (p *program) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err == nil {
		p.begun()
		p.readers.Go(p.readStdout)
		p.readers.Go(p.readStderr)
	}
	started <- err
	if err == nil {
		p.reap()
	}
}

// begun makes the process known to signal. If we wanted it dead before that, it is.
func (p *program) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number = p.cmd.Process.Pid
	if p.killed {
		signalGroup(p.number, syscall.SIGKILL)
	}
}

// reap waits for the end, kills what is left of the group, and lets go.
func (p *program) reap() {
	reaped, err := awaitEnd(p.cmd)
	p.mu.Lock()
	signalGroup(p.number, syscall.SIGKILL)
	if !reaped {
		err = p.cmd.Wait()
	}
	p.reaped, p.exit = true, err
	p.mu.Unlock()
	close(p.ended)
	deadline := time.Now().Add(drainTime)
	for _, pipe := range []*os.File{p.stdout, p.stderr} {
		_ = pipe.SetReadDeadline(deadline) // pipes have deadlines
	}
	p.readers.Wait()
	closeAll(p.stdout, p.stderr)
	close(p.exited)
}

// explainStart says what the kernel meant.
func (p *program) explainStart(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT): // the file is there: it was checked
		return errors.New("the interpreter in its first line, or the loader of its libraries, is missing")
	case errors.Is(err, syscall.ENOEXEC):
		return errors.New("the program is built for another platform, or is a script without #! in its first line")
	case errors.Is(err, syscall.EACCES):
		return errors.New("the program can't be executed: check its permissions, and whether its file system is mounted noexec (a pinned one is copied to TMPDIR)")
	}
	return fmt.Errorf("start the program: %w", err)
}

// maxHandshake is more than the one line on stdout can need, certificate included.
const maxHandshake = 8 << 10

// readStdout hands the first line to the library, if it is right, and prints the rest.
func (p *program) readStdout() {
	defer p.toReader.Close()
	reader := bufio.NewReaderSize(p.stdout, maxHandshake)
	line, err := reader.ReadSlice('\n')
	if fault := checkHandshake(string(line), err, p.mtls); fault != nil {
		p.mu.Lock()
		p.fault = fault
		p.mu.Unlock()
		p.toReader.Close()
	} else if _, err := p.toReader.Write(line); err != nil {
		return
	}
	to := p.out.stream(streamStdout)
	defer to.end()
	io.Copy(to, reader) // ends with the process, or with the time for what is left
}

func (p *program) readStderr() {
	to := p.out.stream(streamStderr)
	defer to.end()
	io.Copy(to, p.stderr) // ends with the process, or with the time for what is left
}

// signal goes to the whole group, and nowhere once that has ended.
func (p *program) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = p.killed || signal == syscall.SIGKILL && !p.reaped
	if p.number != 0 && !p.reaped {
		signalGroup(p.number, signal)
	}
}

// kill ends the group and waits until it has, within bounds: what hangs in the
// kernel is left behind.
func (p *program) kill() error {
	p.signal(syscall.SIGKILL)
	if p.pid() == 0 {
		return nil
	}
	return await(p.exited, killTime)
}

// killTime is longer than drainTime, which is part of an end.
const killTime = drainTime + 3*time.Second

var errImmortal = errors.New("the plugin's process did not end after it was killed")

func await(end <-chan struct{}, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-end:
		return nil
	case <-timer.C:
		return errImmortal
	}
}

// handshakeFault is what was wrong with the first line, if anything.
func (p *program) handshakeFault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// endedByItself tells, once exited is closed, whether it was not us who ended it.
func (p *program) endedByItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed {
		return true
	}
	exit, ok := errors.AsType[*exec.ExitError](p.exit)
	if !ok {
		return true
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && !(status.Signaled() && status.Signal() == syscall.SIGKILL)
}

// lastWords says how the process ended, with the last line that it printed.
func (p *program) lastWords() error {
	how := "exit status 0"
	if p.exit != nil {
		how = p.exit.Error()
	}
	if last := p.out.lastLine(); last != "" {
		return fmt.Errorf("the plugin's process ended: %s: %s", how, last)
	}
	return fmt.Errorf("the plugin's process ended: %s", how)
}

// pid is 0 if the process did not start.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number
}

// What follows is how the library sees the program.

// Stdout has the handshake only, and ends with the process.
func (p *program) Stdout() io.ReadCloser { return p.toHost }

// Stderr is empty: we read it ourselves.
func (p *program) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait returns when the process has been reaped.
func (p *program) Wait(context.Context) error { <-p.exited; return p.exit }

// Kill kills the group.
func (p *program) Kill(context.Context) error { return p.kill() }

// Name is the name of the file.
func (p *program) Name() string { return filepath.Base(p.path) }

// ID is the number of the process.
func (p *program) ID() string { return strconv.Itoa(p.pid()) }

// Diagnose has nothing to add to our own errors.
func (p *program) Diagnose(context.Context) string { return "" }

// PluginToHost refuses to be sent to another machine.
func (p *program) PluginToHost(network, address string) (string, string, error) {
	return network, address, checkAddress(network, address)
}

// HostToPlugin changes nothing.
func (p *program) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func checkAddress(network, address string) error {
	switch network {
	case "unix":
		return nil
	case "tcp":
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("the plugin listens on %s %q: it must be a unix socket, or tcp on 127.0.0.1", clean(network), clean(address))
}
