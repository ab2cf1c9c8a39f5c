package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/spf13/cobra"
)

// The exit codes, which scripts may rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitUnreachable = 4
	exitNotFound    = 5
	exitConflict    = 6
	exitDenied      = 8
	exitInterrupted = 130
)

// codedError is an error that knows its exit code.
type codedError struct {
	code int
	err  error
	api  string // the code that the bridge or the client gave; may be empty
}

func (e *codedError) Error() string {
	if e.api == "" {
		return e.err.Error()
	}
	return e.err.Error() + " [" + e.api + "]"
}

func (e *codedError) Unwrap() error { return e.err }

// coded gives err an exit code; nil stays nil.
func coded(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: code, err: err}
}

func usageError(text string) error { return coded(exitUsage, errors.New(text)) }

// oneArgument is for commands with exactly one argument, of that name.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError(fmt.Sprintf("%s needs one argument, %s; %d were given", cmd.CommandPath(), name, len(args)))
		}
		return nil
	}
}

// errReported ends a command whose errors have been printed already.
var errReported = errors.New("reported")

func isQuiet(err error) bool { return errors.Is(err, errReported) }

// exitCode is what err means to a script.
func (a *app) exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if !a.began {
		return exitUsage
	}
	if c, ok := errors.AsType[*codedError](err); ok {
		return c.code
	}
	_, isFaults := errors.AsType[config.Faults](err)
	switch {
	case isFaults:
		return exitConfig
	case a.wasInterrupted() && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, core.ErrUnavailable):
		return exitUnreachable
	}
	return exitFailed
}

func (a *app) wasInterrupted() bool {
	select {
	case <-a.interrupted:
		return true
	default:
		return false
	}
}
