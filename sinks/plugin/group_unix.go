//go:build unix && !linux

package plugin

import (
	"os/exec"
	"syscall"
)

// groupAttributes make a process the leader of a group of its own, so that what
// it starts can be ended with it. That we were killed, the plugin must notice
// by itself.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals all processes of the group; one that has ended is no error.
func signalGroup(pid int, signal syscall.Signal) { _ = syscall.Kill(-pid, signal) }

// awaitEnd blocks until the process has ended, and reaps it: here, there is no
// waiting without.
func awaitEnd(cmd *exec.Cmd) (reaped bool, err error) { return true, cmd.Wait() }
