package redisstore

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes its owner at a time, to within tens of microseconds. The
// runtime's own timers are up to a millisecond late when the process is idle,
// as the poller waits in whole milliseconds (go.dev/issue/44343); a timerfd in
// that same poller is not.
type alarm struct {
	fd   int
	file *os.File
	c    chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan struct{}, 1)}
	return a, nil
}

// run passes on the ticks until close is called.
func (a *alarm) run() {
	var ticks [8]byte
	for {
		if _, err := a.file.Read(ticks[:]); err != nil {
			return
		}
		select {
		case a.c <- struct{}{}:
		default:
		}
	}
}

// set makes the alarm go off once after d; a tick that is left over from before
// is taken back as far as it has come.
func (a *alarm) set(d time.Duration) {
	select {
	case <-a.c:
	default:
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(d)))}
	unix.TimerfdSettime(a.fd, 0, &spec, nil) // can't fail with these arguments
}

func (a *alarm) close() { a.file.Close() }
