//go:build unix

package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m, asPlugin()).Run()) }

// asPlugin is a console that is a file, as standard output is taken.
func asPlugin() plugin.Definition {
	return plugin.Definition{Name: "console", Version: "test", Checks: true,
		Open: func(_ context.Context, config json.RawMessage) (core.Sink, error) {
			var c map[string]string
			if err := json.Unmarshal(config, &c); err != nil {
				return nil, err
			}
			file, err := os.OpenFile(c["file"], os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			return New(unlocked{file}, JSON)
		}}
}

// unlocked waits while someone else has locked the file.
type unlocked struct{ *os.File }

func (u unlocked) Write(p []byte) (int, error) {
	if err := syscall.Flock(int(u.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	n, err := u.File.Write(p)
	return n, errors.Join(err, syscall.Flock(int(u.Fd()), syscall.LOCK_UN))
}

func TestConformanceAsPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(t testing.TB) core.Sink { return plugintest.Open(t, "console", map[string]string{"file": path}) }
	consume := func(t testing.TB, topic string) sinktest.Reader { return follow(t, path, topic) }
	stall := func(t testing.TB) func() { return lock(t, path) }
	k := kit(open, consume, stall)
	k.Rounds = 10 // each starts a process
	sinktest.Run(t, k)
}

// follow reads the lines of one topic as they come.
func follow(t testing.TB, path, topic string) sinktest.Reader {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	lines, begun := bufio.NewReader(file), []byte(nil)
	return func(ctx context.Context) (sinktest.Received, error) {
		for {
			more, err := lines.ReadBytes('\n')
			begun = append(begun, more...)
			if err == nil {
				var r record
				if err := json.Unmarshal(begun, &r); err != nil {
					return sinktest.Received{}, err
				}
				if begun = nil; r.Topic == topic {
					return received(r), nil
				}
				continue
			}
			if !errors.Is(err, io.EOF) {
				return sinktest.Received{}, err
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return sinktest.Received{}, ctx.Err()
			}
		}
	}
}

// lock has the console stall.
func lock(t testing.TB, path string) (unlock func()) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}
