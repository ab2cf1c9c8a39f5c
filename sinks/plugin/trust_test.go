//go:build unix

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// TestForeignPluginIsNotRun: what another user could replace is not executed, neither
// at the start nor, if it has become so since, when the plugin is started again.
func TestForeignPluginIsNotRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away; the modes are looked at elsewhere")
		return
	}
	const stranger = 65534
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"file", "dir", "dir/below"} {
		os.Mkdir(at(name), 0o755)
		write(t, at(name+"/sink"), "#!/bin/sh\ntouch "+at("ran")+"\n", 0o755)
	}
	os.Symlink(at("file/sink"), at("link"))
	for _, name := range []string{"file/sink", "dir", "link"} {
		if err := os.Lchown(at(name), stranger, -1); err != nil {
			t.Fatal(err)
		}
	}
	belongs := "belongs to user 65534, who can change it; it must belong to root or to user 0, as whom delaybridge runs: "
	tests := map[string]string{
		at("file/sink"):      belongs + "chown 0 " + at("file/sink"),
		at("dir/sink"):       "is below " + at("dir") + ", which " + belongs + "chown 0 " + at("dir"),
		at("dir/below/sink"): "is below " + at("dir") + ", which " + belongs + "chown 0 " + at("dir"),
		at("link"): "leads to " + at("file/sink") + ", which " + belongs + "chown 0 " + at("file/sink") +
			"; is found by the link " + at("link") + ", which " + belongs + "chown -h 0 " + at("link"),
	}
	for path, want := range tests {
		for name, more := range map[string]map[string]any{"loose": {"command": path}, "pinned": {"command": path, "sha256": sumOf(t, at("file/sink"))}} {
			_, err := Inspect(t.Context(), configOf(t, "x", more), nil)
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field != "command" || invalid.Reason != want {
				t.Errorf("%s, %s: got %v, want %s", path, name, err, want)
			}
		}
	}
	if _, err := os.Stat(at("ran")); err == nil {
		t.Error("it was run")
	}
}

// TestFileGivenAway: the owner is looked at before each start.
func TestFileGivenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away")
		return
	}
	path := filepath.Join(t.TempDir(), "sink")
	text, _ := os.ReadFile(evilPath(t))
	write(t, path, string(text), 0o755)
	e := openEvil(t, "crash", func(s *settings) { s.command = path })
	if err := os.Chown(path, 65534, -1); err != nil {
		t.Fatal(err)
	}
	e.deliver(slack, messages(2)...)
	poll.Until(t, slack, "refused", func() bool { return e.details()["state"] == stateRefused })
	if err := e.deliver(slack, messages(1)...); core.ClassOf(err) != core.Blocked || !strings.Contains(fmt.Sprint(err), "belongs to user 65534") {
		t.Errorf("got %v", err)
	}
	if err := os.Chown(path, 0, -1); err != nil {
		t.Fatal(err)
	}
	e.restarted(1, slack)
}
