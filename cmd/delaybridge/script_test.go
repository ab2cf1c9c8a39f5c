package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"delaybridge": main})
}

// TestScript runs the scripts in testdata/script. Each has a bridge of its own,
// which the client commands find by DELAYBRIDGE_URL, and two commands more:
//
//	exits CODE COMMAND...   runs a command that must end with that code
//	eventually COMMAND...   runs a command until it succeeds, for up to a minute
func TestScript(t *testing.T) {
	example, err := filepath.Abs("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			url, stop := startDev(t, "--no-samples")
			e.Setenv(envURL, url)
			e.Setenv("GORACE", raceOptions)
			e.Setenv("EXAMPLE", example)
			setTimes(e)
			e.Defer(func() {
				if code := stop(); code != exitOK {
					t.Errorf("dev ended with code %d", code)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "eventually": eventually},
	})
}

// setTimes gives the scripts a time to come, as one in another time zone and as
// the bridge writes it, and the times around it.
func setTimes(e *testscript.Env) {
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 100)
	due := day.Add(500 * time.Millisecond)
	e.Setenv("DUE", due.In(time.FixedZone("", -3600)).Format("2006-01-02T15:04:05.0Z07:00"))
	e.Setenv("DUE_UTC", due.Format(core.TimeFormat))
	e.Setenv("BEFORE_DUE", day.Format(time.RFC3339))
	e.Setenv("AFTER_DUE", day.Add(time.Hour).Format(time.RFC3339))
}

// raceOptions keeps the race detector from holding up each exit by a second.
const raceOptions = "atexit_sleep_ms=0"

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	if err := poll.Succeeds(time.Minute, func() error { return ts.Exec(args[0], args[1:]...) }); err != nil {
		ts.Fatalf("%s still fails: %v", strings.Join(args, " "), err)
	}
}

// startDev runs dev on a free port within this process.
func startDev(t *testing.T, args ...string) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...), strings.NewReader(""), in, io.Discard)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && url == "" {
		if _, after, ok := strings.Cut(lines.Text(), "  http   "); ok {
			url = after
			break
		}
	}
	go io.Copy(io.Discard, out)
	if url == "" {
		cancel()
		t.Fatalf("dev ended with code %d before it told its address", <-code)
	}
	return url, sync.OnceValue(func() int {
		cancel()
		return <-code
	})
}

// command is this program as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{"delaybridge"}, args...) // see TestMain
	cmd.Env = append(os.Environ(), "GORACE="+raceOptions, envURL+"=", envToken+"=", envConfig+"=")
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}
