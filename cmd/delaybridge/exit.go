package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// coded gives err an exit code; nil stays nil.
func coded(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
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

// errorText is how an error is printed. The faults of a configuration stand for
// themselves, as editors look for file:line:col at the start of a line.
func errorText(err error) string {
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return fmt.Sprintf("%s\n%s", faults, counted(len(faults), "error"))
	}
	lines := strings.Split(err.Error(), "\n")
	for n, line := range lines {
		lines[n] = escape(strings.ReplaceAll(line, "\t", "  "))
	}
	return "delaybridge: " + strings.TrimSpace(strings.Join(lines, "\n"))
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
