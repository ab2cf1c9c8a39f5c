//go:build unix && !linux

package servers

import "syscall"

// ownGroup: there is no parent-death signal here, so a server outlives a test
// process that is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
