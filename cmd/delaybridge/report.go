package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
)

// report is an error as -o json and -o jsonl print it.
type report struct {
	Code     string `json:"code"` // of the API, or else the name of the exit code
	Message  string `json:"message"`
	ExitCode int    `json:"exit_code"`
	ID       string `json:"id,omitempty"` // of the message, if the command names several
}

var exitNames = map[int]string{
	exitFailed: "failed", exitUsage: "usage", exitConfig: "config", exitUnreachable: "unreachable",
	exitNotFound: "not_found", exitConflict: "conflict", exitDenied: "denied", exitInterrupted: "interrupted",
}

// report prints an error: as text, or as JSON if the answers are JSON. The ID may be
// empty.
func (a *app) report(err error, id string) {
	if !a.errorsAsJSON {
		text := errorText(err)
		if id != "" {
			text = "delaybridge: " + escape(id) + strings.TrimPrefix(text, "delaybridge")
		}
		fmt.Fprintln(a.stderr, text)
		return
	}
	r := a.reportOf(err)
	r.ID = id
	_ = printer{w: a.stderr, format: formatLines}.value(r) // there is nowhere else to tell it
}

func (a *app) reportOf(err error) report {
	r := report{Message: err.Error(), ExitCode: a.exitCode(err)}
	if c, ok := errors.AsType[*codedError](err); ok && c.api != "" {
		r.Code, r.Message = c.api, strings.TrimSuffix(r.Message, " ["+c.api+"]")
	}
	r.Code = cmp.Or(r.Code, exitNames[r.ExitCode])
	return r
}

// wantsJSON reports whether the output is to be JSON, also of a command line that can't
// be understood otherwise.
func wantsJSON(args []string) bool {
	var output string
	cmd := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	cmd.Flags().StringVarP(&output, "output", "o", "", "")
	_ = cmd.ParseFlags(args) // the real command reports what is wrong
	return output == formatJSON || output == formatLines
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
