package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start runs cmd as a process that ends with this one, however that ends, and
// returns a channel that is closed when it has ended. The signal that does it is
// sent when the thread that forked ends, so a goroutine keeps to it.
func start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	over, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the caller looks at its ProcessState
			close(over)
		}
	}()
	return over, <-started
}
