package redisstore

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer goes off to within tens of microseconds of its time. The runtime's own
// timers are up to a millisecond late when the process is idle, as the poller
// waits in whole milliseconds (go.dev/issue/44343); a timerfd in that same poller
// is not.
type timer struct {
	fd   int
	file *os.File
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}, nil
}

// wait blocks until the timer goes off; it returns false when it is closed.
func (t *timer) wait() bool {
	var ticks [8]byte
	_, err := t.file.Read(ticks[:])
	return err == nil
}

// set has the timer go off once after d, which is positive, and at no time that
// was set before.
func (t *timer) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	unix.TimerfdSettime(t.fd, 0, &spec, nil) // can't fail with these arguments
}

func (t *timer) close() { t.file.Close() }
