//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is one server process, which can be started again after it ended. It
// leads a process group, and signals go to the whole group, since some servers
// are started by a script.
type process struct {
	name string // of its log file
	dir  string
	argv []string
	env  []string // on top of our own

	mu     sync.Mutex
	pid    int
	exited <-chan struct{} // closed at the end of the current run; nil before the first
}

// start runs the process; its output is appended to a log file in its directory.
func (p *process) start() error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = append(os.Environ(), p.env...)
	exited, err := StartProcess(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.exited = cmd.Process.Pid, exited
	return nil
}

// StartProcess starts cmd as the leader of a process group that ends with this
// process, however that ends (on Linux), and returns a channel that is closed when
// it has ended. The signal that does it is sent when the thread that forked ends,
// so a goroutine keeps to it.
func StartProcess(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	cmd.SysProcAttr = ownGroup()
	over, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // its ProcessState tells how it ended
			close(over)
		}
	}()
	return over, <-started
}

// ended returns a channel that is closed when the current run has ended.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

func (p *process) running() bool {
	ended := p.ended()
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// signal sends sig to the group. The group may outlive its leader.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		syscall.Kill(-p.pid, sig)
	}
}

// kill ends the process as a crash would, and returns when it has ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.wait()
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop(timeout time.Duration) {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
	if ended := p.ended(); ended != nil {
		select {
		case <-ended:
		case <-time.After(timeout):
		}
	}
	p.kill()
}

func (p *process) wait() {
	if ended := p.ended(); ended != nil {
		<-ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid = 0
}

func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

const logTail = 3000

// log returns the end of what the process has written.
func (p *process) log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}
