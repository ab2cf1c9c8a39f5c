//go:build !unix

package kit

import (
	"context"
	"os"
	"syscall"
)

// errNotHere: processes are watched and ended in other ways here.
var errNotHere = skipped("can't be checked on this system")

func (v *verifier) startsTidily(context.Context) error   { return errNotHere }
func (v *verifier) explainsItself(context.Context) error { return errNotHere }
func (v *verifier) endsOnSignal(context.Context) error   { return errNotHere }
func (v *verifier) endsWithHost(context.Context) error   { return errNotHere }

func isAlive(int) bool { return false }

func kill(pid int, _ syscall.Signal) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}
