//go:build unix && !linux

package main

import "os/exec"

// start runs cmd and returns a channel that is closed when it has ended.
func start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	over := make(chan struct{})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the caller looks at its ProcessState
		close(over)
	}()
	return over, nil
}
