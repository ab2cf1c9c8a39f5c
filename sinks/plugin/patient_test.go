package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// TestBrokenAtTheStart: a plugin that does not start blocks its sink alone, says why, and
// is used when it has become good.
func TestBrokenAtTheStart(t *testing.T) {
	tests := map[string]struct {
		text  string // of the program; empty: there is none
		mode  os.FileMode
		class core.Class
		why   string
	}{
		"missing":     {"", 0, core.Blocked, "no such file or directory"},
		"loose":       {"#!/bin/sh\n", 0o777, core.Blocked, "can be changed by others"},
		"no plugin":   {"#!/bin/sh\necho hello\n", 0o755, core.Blocked, "the first line on stdout"},
		"ends":        {"#!/bin/sh\necho no licence >&2\nexit 3\n", 0o755, core.Retry, "exit status 3: no licence"},
		"interpreter": {"#!/nowhere\n", 0o755, core.Retry, "the interpreter in its first line"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, path := openBroken(t, test.text, test.mode)
			checker := e.Sink.(core.Checker)
			err := e.deliver(slack, messages(2)...)
			if core.ClassOf(err) != test.class || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v", err)
			}
			if err := checker.Check(t.Context(), []*core.Message{{Topic: "big"}}); err != nil {
				t.Errorf("it refuses messages: %v", err)
			}
			if f := e.details(); f["state"] == stateRunning || !strings.Contains(f["last_exit"], test.why) || f["pid"] != "" {
				t.Errorf("details %v", f)
			}
			if e.Sink.(core.HealthChecker).Health(t.Context()) == nil {
				t.Error("it is healthy")
			}
			var lines []map[string]any
			poll.Until(t, slack, "logged", func() bool {
				lines = e.journal.with(t, "plugin failed to start, its sink is blocked and its messages wait")
				return len(lines) > 0
			})
			if lines[0]["level"] != "ERROR" || !strings.Contains(lines[0]["err"].(string), test.why) {
				t.Errorf("logged %v", lines)
			}
			good, _ := os.ReadFile(evilPath(t))
			write(t, path+".new", string(good), 0o755)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			e.restarted(0, slack)
			if err := e.deliver(slack, messages(2)...); err != nil {
				t.Error(err)
			}
			if checker.Check(t.Context(), []*core.Message{{Topic: "big"}}) == nil {
				t.Error("it does not check")
			}
		})
	}
}

// openBroken opens a plugin whose program is text, as the bridge does.
func openBroken(t *testing.T, text string, mode os.FileMode) (e *evilSink, path string) {
	t.Helper()
	verifyNothingLeft(t)
	path = filepath.Join(t.TempDir(), "sink")
	if text != "" {
		write(t, path, text, mode)
	}
	s := settingsFor(t, "checks")
	s.command, s.pace.first, s.pace.longest, s.pace.crashes = path, 10*time.Millisecond, 100*time.Millisecond, 1000
	e = &evilSink{t: t, journal: &journal{}, record: recordOf(s)}
	sink, err := open(t.Context(), s, e.journal.log(), true)
	if err != nil {
		t.Fatal(err)
	}
	e.Sink = sink
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, path
}

// TestBrokenAndClosed: a sink whose plugin never came to run closes at once.
func TestBrokenAndClosed(t *testing.T) {
	e, _ := openBroken(t, "#!/bin/sh\nexit 1\n", 0o755)
	began := time.Now()
	if err := errors.Join(e.Close(), e.Close()); err != nil || time.Since(began) > slack {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	if err := e.deliver(slack, messages(1)...); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

// TestRequired: what is required has to start, and so has everything if nobody is patient.
func TestRequired(t *testing.T) {
	verifyNothingLeft(t)
	for name, test := range map[string]struct {
		open     func() core.OpenFunc
		required bool
	}{
		"required": {func() core.OpenFunc { return PatientOpener(nil) }, true},
		"strict":   {func() core.OpenFunc { return Opener(nil) }, false},
	} {
		_, err := test.open()(t.Context(), configOf(t, "exit", map[string]any{"required": test.required}))
		if err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
