//go:build unix

package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// Bridge is a process of `delaybridge serve`.
type Bridge struct {
	Cmd   *exec.Cmd
	Ended <-chan struct{} // closed when the process has ended
	Logs  journal.Journal
}

// StartBridge starts cmd and keeps what it logs, which it writes to log too.
func StartBridge(cmd *exec.Cmd, log io.Writer) (b *Bridge, err error) {
	b = &Bridge{Cmd: cmd}
	cmd.Stderr = io.MultiWriter(&b.Logs, log)
	if b.Ended, err = StartProcess(cmd); err != nil {
		return nil, err
	}
	return b, nil
}

var readyLine = regexp.MustCompile(`msg=ready .*http=([0-9.:]+)`)

// Ready waits until the process listens and returns its URL; it is empty if the
// process ended, or did not come to listen within limit.
func (b *Bridge) Ready(limit time.Duration) (url string) {
	poll.Holds(limit, func() bool {
		if found := b.Logs.Find(readyLine); len(found) > 0 {
			url = "http://" + found[0]
		}
		return url != "" || b.HasEnded(0)
	})
	return url
}

// HasEnded waits for the process to end, for limit at the longest, and tells whether
// it did.
func (b *Bridge) HasEnded(limit time.Duration) bool {
	select {
	case <-b.Ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// Kill ends the process as a crash does, if it has not ended.
func (b *Bridge) Kill() {
	_ = b.Cmd.Process.Kill() // it may have ended
	<-b.Ended
}

// Stop ends the process as an operator does, or kills it after limit, and tells what
// went wrong.
func (b *Bridge) Stop(limit time.Duration) error {
	if err := b.Cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("it had ended:\n%s", b.Logs.Tail())
	}
	if !b.HasEnded(limit) {
		b.Kill()
		return fmt.Errorf("it did not end within %s of an interrupt", limit)
	}
	if !b.Cmd.ProcessState.Success() {
		return fmt.Errorf("it ended with %s:\n%s", b.Cmd.ProcessState, b.Logs.Tail())
	}
	return nil
}
