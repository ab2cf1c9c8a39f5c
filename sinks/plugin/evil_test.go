package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	kept "github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// evilDir is where the evil plugin is built, once.
var evilDir string

func TestMain(m *testing.M) {
	if role := os.Getenv("PLUGIN_TEST_ROLE"); role == "host" {
		hostMain()
	}
	dir, err := os.MkdirTemp("", "evil-")
	if err != nil {
		panic(err)
	}
	evilDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var buildEvil = sync.OnceValues(func() (string, error) {
	path := filepath.Join(evilDir, "evil")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/evil").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the evil plugin: %w\n%s", err, out)
	}
	return path, nil
})

func evilPath(t testing.TB) string {
	t.Helper()
	path, err := buildEvil()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// journal is a log that is read back.
type journal struct{ kept.Journal }

func (j *journal) log() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with returns the records whose message is msg.
func (j *journal) with(t testing.TB, msg string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(j.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		if record["msg"] == msg {
			found = append(found, record)
		}
	}
	return found
}

// evilSink is a sink whose plugin misbehaves.
type evilSink struct {
	core.Sink
	t       testing.TB
	journal *journal
	record  string // the file of what was delivered
}

// settingsFor are those of the evil plugin. It has long to say that it lives, as
// it may get no processor for a while.
func settingsFor(t testing.TB, mode string) settings {
	t.Helper()
	record := filepath.Join(t.TempDir(), "record")
	config := fmt.Sprintf(`{"command":%q,"args":[%q],"config":{"record":%q,"children":%q}}`, evilPath(t), mode, record, record+".children")
	s, err := decode([]byte(config), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	s.startTimeout = time.Minute
	s.pace.check = 20 * time.Second
	return s
}

// watchful is for plugins that never say that they live.
func watchful(s *settings) { s.pace.check = 2 * time.Second }

func recordOf(s settings) string {
	var c struct{ Record string }
	json.Unmarshal(s.config, &c)
	return c.Record
}

// openEvil fails the test if the sink can't be opened, or leaves anything behind.
func openEvil(t testing.TB, mode string, change ...func(*settings)) *evilSink {
	t.Helper()
	verifyNothingLeft(t)
	s := settingsFor(t, mode)
	for _, c := range change {
		c(&s)
	}
	e := &evilSink{t: t, journal: &journal{}, record: recordOf(s)}
	sink, err := open(t.Context(), s, e.journal.log(), false)
	if err != nil {
		t.Fatal(err)
	}
	e.Sink = sink
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(core.Shorten(e.journal.String(), 5000))
		}
	})
	return e
}

// verifyNothingLeft looks, at the end of the test, for goroutines, processes and files.
func verifyNothingLeft(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp(evilDir, "t") // a short name, as sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before)
		if left := childrenOf(os.Getpid()); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "delaybridge-*")); len(files) > 0 {
			t.Errorf("files are left: %v", files)
		}
	})
}

// childrenOf are the numbers of the processes that a process has, the dead included.
func childrenOf(pid int) []string {
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found = append(found, filepath.Base(filepath.Dir(stat)))
		}
	}
	return found
}

func (e *evilSink) details() map[string]string { return e.Sink.(core.Describer).Describe() }

func (e *evilSink) pid() int {
	pid, _ := strconv.Atoi(e.details()["pid"])
	return pid
}

// signal waits for a process, as there is none while one takes another's place:
// a signal to process 0 would go to the tests themselves.
func (e *evilSink) signal(signal syscall.Signal) {
	e.t.Helper()
	pid := 0
	poll.Until(e.t, slack, "a process to signal", func() bool { pid = e.pid(); return pid > 0 })
	if err := syscall.Kill(pid, signal); err != nil {
		e.t.Error(err)
	}
}

// restarted waits until the plugin has been restarted n times.
func (e *evilSink) restarted(n int, limit time.Duration) {
	e.t.Helper()
	poll.Until(e.t, limit, "restart", func() bool {
		f := e.details()
		return f["restarts"] == strconv.Itoa(n) && f["state"] == stateRunning
	})
}

func (e *evilSink) deliver(timeout time.Duration, batch ...*core.Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return e.Deliver(ctx, batch)
}

func messages(n int) []*core.Message {
	batch := make([]*core.Message, n)
	for i := range batch {
		batch[i] = &core.Message{ID: fmt.Sprintf("m%d", i), Topic: "t", Body: []byte("body"), DeliverAt: time.UnixMilli(1), Attempt: 1}
	}
	return batch
}

// alive tells whether a process is there and no zombie.
func alive(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}
