package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestDeliver(t *testing.T) {
	e := openEvil(t, "normal")
	if err := e.deliver(slack, messages(3)...); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(e.record); string(got) != "m0 1\nm1 1\nm2 1\n" {
		t.Errorf("recorded %q", got)
	}
	f := e.details()
	if f["plugin"] != "evil" || f["version"] != "v0.6.6" || f["state"] != "running" || f["restarts"] != "0" || f["last_exit"] != "" || e.pid() == 0 {
		t.Errorf("details %v", f)
	}
	if err := e.Sink.(core.HealthChecker).Health(t.Context()); err != nil {
		t.Error(err)
	}
	if _, checks := e.Sink.(core.Checker); checks {
		t.Error("it checks")
	}
	pid := e.details()["pid"]
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if err := e.deliver(time.Second, messages(1)...); core.ClassOf(err) != core.Retry || !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if alive(pid) || e.details()["state"] != "closed" || e.Sink.(core.HealthChecker).Health(t.Context()) == nil {
		t.Errorf("after Close: %v", e.details())
	}
	if n := len(e.journal.with(t, "plugin is not pinned: without sha256, any program at this path is executed")); n != 1 {
		t.Errorf("warned %d times", n)
	}
}

func TestHealth(t *testing.T) {
	e := openEvil(t, "unhealthy")
	if err := e.Sink.(core.HealthChecker).Health(t.Context()); err == nil || err.Error() != `broker \ais down` {
		t.Errorf("got %v", err)
	}
}

// TestReplaced: whatever a plugin does in the middle of a batch, the batch has
// the right class, one line says why, and another process takes its place.
func TestReplaced(t *testing.T) {
	tests := []struct {
		mode, class, why string
	}{
		{"crash", "all:unknown", "the plugin's process ended: exit status 7: out of luck"},
		{"hang", "all:unknown", "it did not answer the health check within 2s"},
		{"other-messages", "all:unknown", `its result 5 is for message "somebody-else's", not for "m5"`},
		{"too-few", "all:unknown", "it returned 5 results for 6 messages"},
	}
	for _, test := range tests {
		t.Run(test.mode, func(t *testing.T) {
			timeout, change := slack, func(*settings) {}
			if test.mode == "hang" {
				timeout, change = 2*time.Second, watchful
			}
			e := openEvil(t, test.mode, change)
			first := e.details()["pid"]
			err := e.deliver(timeout, messages(6)...)
			if got := classesOf(err, 6); got != test.class {
				t.Errorf("got %s: %v", got, err)
			}
			e.restarted(1, slack)
			lines := e.journal.with(t, "plugin exited")
			if len(lines) != 1 || !strings.HasPrefix(fmt.Sprint(lines[0]["err"]), test.why) || lines[0]["level"] != "WARN" {
				t.Errorf("logged %v", lines)
			}
			if n := len(e.journal.with(t, "plugin is running again")); n != 1 {
				t.Errorf("told %d times that it runs again", n)
			}
			if alive(first) {
				t.Error("the first process lives")
			}
			if f := e.details(); !strings.HasPrefix(f["last_exit"], test.why) {
				t.Errorf("details %v", f)
			}
		})
	}
}

// TestLongTexts: a plugin that does not cut the texts of its errors goes on, whatever
// their length.
func TestLongTexts(t *testing.T) {
	for mode, want := range map[string]string{"long-text": "ok ok topic_blocked", "oversized": "all:unknown"} {
		t.Run(mode, func(t *testing.T) {
			e := openEvil(t, mode)
			for range 3 {
				err := e.deliver(slack, messages(3)...)
				if got := classesOf(err, 3); got != want {
					t.Errorf("got %s", got)
				}
				if n := len(err.Error()); n > 2*core.MaxErrorText {
					t.Errorf("the error has %d bytes", n)
				}
			}
			if f := e.details(); f["restarts"] != "0" || f["state"] != "running" {
				t.Errorf("details %v", f)
			}
			logged := len(e.journal.with(t, "plugin's reply is too large to be read: the plugin must shorten the texts of its errors"))
			if (logged == 1) != (mode == "oversized") {
				t.Errorf("logged %d times", logged)
			}
		})
	}
}

// slack is for machines that do other things as well.
const slack = 20 * time.Second

func TestHarmlessReplies(t *testing.T) {
	for mode, want := range map[string]string{"garbage-reply": "all:unknown", "odd-outcome": "ok ok unknown"} {
		t.Run(mode, func(t *testing.T) {
			e := openEvil(t, mode)
			if got := classesOf(e.deliver(slack, messages(3)...), 3); got != want {
				t.Errorf("got %s", got)
			}
			if f := e.details(); f["restarts"] != "0" || f["state"] != "running" {
				t.Errorf("details %v", f)
			}
		})
	}
}

// TestStopped: a plugin that is frozen is found without and with a call.
func TestStopped(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		e := openEvil(t, "normal", watchful, func(s *settings) { s.healthInterval = time.Second })
		e.signal(syscall.SIGSTOP)
		e.restarted(1, slack)
	})
	t.Run("in a call", func(t *testing.T) {
		e := openEvil(t, "normal", watchful, func(s *settings) { s.healthInterval = time.Hour })
		e.signal(syscall.SIGSTOP)
		poll.Until(t, slack, "all of it stopped", func() bool { return servers.Stopped(e.pid()) })
		if err := e.deliver(2*time.Second, messages(1)...); core.ClassOf(err) != core.Unknown {
			t.Errorf("got %v", err)
		}
		e.restarted(1, slack)
		if err := e.deliver(slack, messages(1)...); err != nil {
			t.Error(err)
		}
	})
	t.Run("at the end", func(t *testing.T) {
		e := openEvil(t, "normal", func(s *settings) { s.stopTimeout = 500 * time.Millisecond })
		e.signal(syscall.SIGSTOP)
		began := time.Now()
		e.Close()
		if took := time.Since(began); took > slack {
			t.Errorf("took %s", took)
		}
	})
}

// TestDownFailsAtOnce: between two lives nothing waits and nothing is sent.
func TestDownFailsAtOnce(t *testing.T) {
	e := openEvil(t, "crash", func(s *settings) { s.pace.first, s.pace.longest = time.Hour, time.Hour })
	e.deliver(slack, messages(1)...)
	poll.Until(t, slack, "down", func() bool { return e.details()["state"] == stateRestarting })
	began := time.Now()
	err := e.deliver(time.Minute, messages(1)...)
	if core.ClassOf(err) != core.Retry || !strings.Contains(err.Error(), "exit status 7") || time.Since(began) > slack {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	if err := e.Sink.(core.HealthChecker).Health(t.Context()); err == nil {
		t.Error("it is healthy")
	}
}

func TestQuarantine(t *testing.T) {
	e := openEvil(t, "crash", func(s *settings) { s.pace.first, s.pace.longest = time.Millisecond, time.Millisecond })
	for n := range 5 {
		poll.Until(t, slack, "running", func() bool { return e.details()["state"] == stateRunning })
		e.deliver(slack, messages(2)...) // an end on one would be the message's
		poll.Until(t, slack, "noticed", func() bool {
			return len(e.journal.with(t, "plugin exited"))+len(e.journal.with(t, "plugin exited too often, it is quarantined")) > n
		})
	}
	if f := e.details(); f["state"] != stateQuarantined || f["restarts"] != "4" || f["pid"] != "" {
		t.Errorf("details %v", f)
	}
	err := e.Sink.(core.HealthChecker).Health(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the plugin is quarantined, it keeps failing: the plugin's process ended: exit status 7") {
		t.Errorf("health: %v", err)
	}
	if err := e.deliver(time.Second, messages(1)...); core.ClassOf(err) != core.Retry {
		t.Errorf("got %v", err)
	}
	if n := len(e.journal.with(t, "plugin exited too often, it is quarantined")); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestSwappedBinaryBlocks: a pinned plugin whose file was replaced does not come back.
func TestSwappedBinaryBlocks(t *testing.T) {
	path := t.TempDir() + "/sink"
	text, _ := os.ReadFile(evilPath(t))
	write(t, path, string(text), 0o755)
	e := openEvil(t, "crash", func(s *settings) {
		pinned, err := decode(configOf(t, "crash", map[string]any{"command": path, "sha256": sumOf(t, path)}), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		s.command, s.sha256 = pinned.command, pinned.sha256
	})
	os.Remove(path)
	write(t, path, "#!/bin/sh\ntouch "+path+".ran\n", 0o755)
	e.deliver(slack, messages(1)...)
	poll.Until(t, slack, "refused", func() bool { return e.details()["state"] == stateRefused })
	if err := e.deliver(time.Second, messages(1)...); core.ClassOf(err) != core.Blocked || !strings.Contains(err.Error(), "the program was not run") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path + ".ran"); err == nil {
		t.Error("it ran")
	}
}

func TestChildrenEndWithThePlugin(t *testing.T) {
	for name, end := range map[string]func(*evilSink){
		"closed": func(e *evilSink) { e.Close() },
		"killed": func(e *evilSink) { e.signal(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			e := openEvil(t, "fork", func(s *settings) { s.pace.first, s.pace.longest = time.Hour, time.Hour })
			text, err := os.ReadFile(e.record + ".children")
			children := strings.Fields(string(text))
			if err != nil || len(children) != 3 || !alive(children[0]) {
				t.Fatalf("children %v %v", children, err)
			}
			end(e)
			poll.Until(t, slack, "children gone", func() bool {
				return !alive(children[0]) && !alive(children[1]) && !alive(children[2])
			})
		})
	}
}

func TestIgnoresTerm(t *testing.T) {
	e := openEvil(t, "ignores-term", func(s *settings) { s.stopTimeout = 300 * time.Millisecond })
	pid, began := e.details()["pid"], time.Now()
	e.Close()
	if took := time.Since(began); took > slack || alive(pid) {
		t.Errorf("took %s, lives: %v", took, alive(pid))
	}
	if lines := e.journal.with(t, "plugin did not exit in time, it was killed"); len(lines) != 1 {
		t.Errorf("logged %v", lines)
	}
}

func TestCloseDuringDeliver(t *testing.T) {
	e := openEvil(t, "mute", func(s *settings) { s.stopTimeout = 300 * time.Millisecond })
	const calls = 20
	errs := make(chan error, calls)
	for range calls {
		go func() { errs <- e.deliver(time.Minute, messages(2)...) }()
	}
	poll.Until(t, slack, "calls under way", func() bool { return strings.Count(stacks(), "(*instance).deliver(") == calls })
	began := time.Now()
	e.Close()
	for range calls {
		if err := <-errs; core.ClassOf(err) != core.Unknown {
			t.Errorf("got %v", err)
		}
	}
	if took := time.Since(began); took > slack {
		t.Errorf("took %s", took)
	}
}

func stacks() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

func TestCancelReturnsAtOnce(t *testing.T) {
	e := openEvil(t, "mute")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if err := e.Deliver(ctx, messages(1)); core.ClassOf(err) != core.Unknown || time.Since(began) > slack {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

// TestFlood: a plugin that prints 10 MB/s into both streams delivers on, and
// neither our log nor our memory grows with it.
func TestFlood(t *testing.T) {
	opened := time.Now()
	e := openEvil(t, "flood", func(s *settings) { s.healthInterval = minInterval })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began, peak := time.Now(), uint64(0)
	for time.Since(began) < 3*time.Second {
		if err := e.deliver(slack, messages(10)...); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapInuse)
	}
	if grown := int64(peak) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("heap grew by %d MiB", grown>>20)
	}
	// It may have printed since it was opened, and while its lines are counted.
	printed := len(e.journal.with(t, "plugin says"))
	seconds := int(time.Since(opened)/time.Second) + 2
	if printed < 50 || printed > seconds*linesPerSecond {
		t.Errorf("printed %d lines in %d seconds", printed, seconds)
	}
	dropped := e.journal.with(t, "plugin printed too many lines, some were dropped")
	if len(dropped) == 0 || dropped[0]["lines"].(float64) < 1000 {
		t.Errorf("dropped %v", dropped)
	}
	text := e.journal.String()
	if strings.ContainsAny(text, "\x1b\x07\r") || !strings.Contains(text, `\\x1b[31mred\\x1b[0m \\a and`) {
		t.Errorf("logged %q", core.Shorten(text, 500))
	}
}

func TestLeaksNothingToUs(t *testing.T) {
	before := descriptors(t)
	e := openEvil(t, "leaks")
	if err := e.deliver(slack, messages(1)...); err != nil && core.ClassOf(err) != core.Unknown {
		t.Error(err) // without descriptors it may fail, but has to be believed
	}
	e.Close()
	poll.Until(t, slack, "descriptors gone", func() bool { return descriptors(t) <= before })
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestDescriptorsAfterManyLives(t *testing.T) {
	e := openEvil(t, "crash", func(s *settings) {
		s.pace.first, s.pace.longest, s.pace.crashes = time.Millisecond, time.Millisecond, 1000
	})
	e.deliver(slack, messages(1)...)
	e.restarted(1, slack)
	before, threads := descriptors(t), runtime.NumGoroutine()
	for n := range 10 {
		e.deliver(slack, messages(1)...)
		e.restarted(n+2, slack)
	}
	poll.Until(t, slack, "goroutines gone", func() bool { return runtime.NumGoroutine() <= threads+2 })
	poll.Until(t, slack, "descriptors gone", func() bool { return descriptors(t) <= before+2 })
}
