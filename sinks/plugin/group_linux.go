package plugin

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// groupAttributes make a process the leader of a group of its own, so that what
// it starts can be ended with it, and have it killed when the thread that
// started it ends, which is when we are killed.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup signals all processes of the group; one that has ended is no error.
func signalGroup(pid int, signal syscall.Signal) { _ = syscall.Kill(-pid, signal) }

const (
	waitForPID   = 1          // P_PID
	waitExited   = 0x4        // WEXITED
	waitKeep     = 0x01000000 // WNOWAIT
	sizeOfAnswer = 128        // of siginfo_t
)

// awaitEnd blocks until the process has ended, and leaves it to be reaped: as
// long as it is not, no other process can get its number, so that its group can
// be signalled safely.
func awaitEnd(cmd *exec.Cmd) (reaped bool, err error) {
	var answer [sizeOfAnswer]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitForPID, uintptr(cmd.Process.Pid),
			uintptr(unsafe.Pointer(&answer)), waitExited|waitKeep, 0, 0)
		if errno != syscall.EINTR {
			return false, nil
		}
	}
}
