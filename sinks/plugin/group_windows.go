package plugin

import (
	"os"
	"os/exec"
	"syscall"
)

// groupAttributes are none: there are no process groups that could be ended.
func groupAttributes() *syscall.SysProcAttr { return nil }

// signalGroup kills the one process, whatever the signal.
func signalGroup(pid int, _ syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// awaitEnd blocks until the process has ended, and reaps it: here, there is no
// waiting without.
func awaitEnd(cmd *exec.Cmd) (reaped bool, err error) { return true, cmd.Wait() }
