package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// TestBadStarts: what can't be used is refused with a reason, and nothing of it
// is left.
func TestBadStarts(t *testing.T) {
	tests := []struct {
		mode, field, reason string
		timeout             time.Duration // if it matters
	}{
		{"exit", "", `the plugin's process ended: exit status 3: no \x1b[31mlicence\x1b[0m found`, 0},
		{"cookie", "", "the plugin's process ended: exit status 1: load any plugins automatically", 0},
		{"version", "", `the plugin has version "999" of the protocol, delaybridge has 1: use a matching release of the plugin or of delaybridge`, 0},
		{"core-version", "", `the plugin has version "2" of the handshake, delaybridge has 1`, 0},
		{"garbage", "", `the first line on stdout is not the plugin's address: "Hello \x1b[2J World"`, 0},
		{"endless", "", "the first line on stdout is longer than 8192 bytes: it must be the plugin's address", 0},
		{"netrpc", "", "the plugin does not serve grpc, the fifth part of its first line on stdout", 0},
		{"elsewhere", "", `the plugin listens on tcp "192.0.2.1:25": it must be a unix socket, or tcp on 127.0.0.1`, 0},
		{"closes-stdout", "", "the program ended, or closed its stdout, before it printed its address", 0},
		{"silent", "", "the plugin was not ready within start_timeout, 2s", 2 * time.Second},
		{"no-health", "", "the plugin was not ready within start_timeout, 2s", 2 * time.Second},
		{"mute-server", "", "the plugin was not ready within start_timeout, 2s", 2 * time.Second},
		{"plain", "mtls", "is true (the default), but the plugin sent no certificate: set mtls: false for a plugin without mTLS", 0},
		{"pretends-tls", "mtls", "is true (the default), but mTLS with the plugin failed", 0},
		{"dies-in-configure", "", "the plugin's process ended: exit status 4", 0},
	}
	for _, test := range tests {
		t.Run(test.mode, func(t *testing.T) {
			verifyNothingLeft(t)
			s := settingsFor(t, test.mode)
			if test.timeout > 0 {
				s.startTimeout = test.timeout
			}
			if test.mode == "mute-server" {
				s.mtls = false
			}
			began := time.Now()
			sink, err := open(t.Context(), s, (&journal{}).log(), false)
			if err == nil {
				sink.Close()
				t.Fatal("it was opened")
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
			got, field := strings.TrimPrefix(err.Error(), "start the plugin: "), ""
			if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
				field, got = invalid.Field, invalid.Reason
			}
			if field != test.field || !strings.HasPrefix(got, test.reason) {
				t.Errorf("got %q %q\nwant %q %q", field, got, test.field, test.reason)
			}
		})
	}
}

func TestFaultsOfThePluginsOwnSettings(t *testing.T) {
	verifyNothingLeft(t)
	_, err := open(t.Context(), settingsFor(t, "faults"), (&journal{}).log(), true)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatalf("got %v", err)
	}
	for n, want := range []core.InvalidError{
		{Field: "config.brokers[0]", Reason: `is no \x1b[31mhost`}, {Field: "config", Reason: "has nothing in it"},
	} {
		if got, ok := errors.AsType[*core.InvalidError](joined.Unwrap()[n]); !ok || *got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	verifyNothingLeft(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := open(ctx, settingsFor(t, "silent"), (&journal{}).log(), true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > slack {
		t.Errorf("took %s", took)
	}
}

func configOf(t *testing.T, mode string, more map[string]any) json.RawMessage {
	t.Helper()
	all := map[string]any{"command": evilPath(t), "args": []string{mode}}
	for name, value := range more {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func inspect(t *testing.T, config json.RawMessage) Info {
	t.Helper()
	verifyNothingLeft(t)
	info, err := Inspect(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestInspect(t *testing.T) {
	for _, mtls := range []bool{true, false} {
		info := inspect(t, configOf(t, "normal", map[string]any{"mtls": mtls}))
		if info.Name != "evil" || info.Version != "v0.6.6" || info.Protocol != 1 || info.Start <= 0 {
			t.Errorf("got %+v", info)
		}
	}
}

// TestEnvironment: the plugin sees what it is given and what the handshake needs.
func TestEnvironment(t *testing.T) {
	t.Setenv("A_SECRET", "x")
	t.Setenv("PASSED", "y")
	t.Setenv("LANG", "C")
	t.Setenv("TMPDIR", os.TempDir())
	info := inspect(t, configOf(t, "env", map[string]any{"env": map[string]string{"SET": "z"}, "pass_env": []string{"PASSED"}}))
	const want = "PATH HOME TMPDIR LANG PASSED SET DELAYBRIDGE_PLUGIN PLUGIN_MIN_PORT PLUGIN_MAX_PORT PLUGIN_PROTOCOL_VERSIONS PLUGIN_CLIENT_CERT PLUGIN_UNIX_SOCKET_DIR"
	if info.Description != want {
		t.Errorf("got  %s\nwant %s", info.Description, want)
	}
}

// TestDescriptors: the plugin inherits none of our files.
func TestDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "", 0o600)
	secret, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	info := inspect(t, configOf(t, "fds", nil))
	if strings.Contains(info.Description, path) || !strings.Contains(info.Description, "0=/dev/null ") {
		t.Errorf("it has %s", info.Description)
	}
}

// TestPinned: what runs is a private copy of what was hashed, with its neighbours.
func TestPinned(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sink")
	text, err := os.ReadFile(evilPath(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(text), 0o755)
	write(t, filepath.Join(dir, "neighbour"), "", 0o644)
	config := map[string]any{"command": path, "sha256": strings.ToUpper(sumOf(t, path))}
	info := inspect(t, configOf(t, "path", config))
	if ran, neighbour, _ := strings.Cut(info.Description, " "); ran == path || filepath.Base(ran) != "sink" || neighbour != "true" {
		t.Errorf("it ran as %s", info.Description)
	}
	write(t, path, string(text)+"x", 0o755)
	_, err = Inspect(t.Context(), configOf(t, "path", config), nil)
	want := "is not that of " + path + ", which has " + sumOf(t, path) + ": the program was not run"
	if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "sha256" || invalid.Reason != want {
		t.Errorf("got %v", err)
	}
}

// TestPinnedScript: a script finds what lies beside it.
func TestPinnedScript(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sink.sh")
	write(t, filepath.Join(dir, "module"), "exec "+evilPath(t)+" normal\n", 0o644)
	write(t, path, "#!/bin/sh\n. \"$(dirname \"$0\")/module\"\n", 0o755)
	if info := inspect(t, configOf(t, "normal", map[string]any{"command": path, "sha256": sumOf(t, path)})); info.Name != "evil" {
		t.Errorf("got %+v", info)
	}
	if info := inspect(t, configOf(t, "normal", map[string]any{"command": path})); info.Name != "evil" {
		t.Errorf("got %+v", info)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out[:64])
}

func TestBinaryIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	good := at("good")
	write(t, good, "#!/bin/sh\n", 0o755)
	write(t, at("data"), "#!/bin/sh\n", 0o644)
	write(t, at("loose"), "#!/bin/sh\n", 0o775)
	write(t, at("looser"), "#!/bin/sh\n", 0o757)
	write(t, at("foreign"), "\x7fELF nonsense", 0o755)
	write(t, at("uninterpreted"), "#!/nowhere\n", 0o755)
	os.Mkdir(at("open"), 0o755)
	write(t, at("open/sink"), "#!/bin/sh\n", 0o755)
	os.Mkdir(at("open/own"), 0o755)
	write(t, at("open/own/sink"), "#!/bin/sh\n", 0o755)
	os.Symlink(good, at("open/link"))
	os.Chmod(at("open"), 0o777)
	os.Mkdir(at("group"), 0o755)
	write(t, at("group/sink"), "#!/bin/sh\n", 0o755)
	os.Chmod(at("group"), 0o775)
	os.Mkdir(at("sticky"), 0o755)
	write(t, at("sticky/sink"), "#!/bin/sh\n", 0o755)
	os.Chmod(at("sticky"), 0o777|os.ModeSticky)
	os.Symlink(at("loose"), at("link"))
	os.Symlink(good, at("good-link"))
	os.Mkdir(at("sticky/own"), 0o755)
	write(t, at("sticky/own/sink"), "#!/bin/sh\n", 0o755)
	os.Symlink("own/../own", at("sticky/link"))
	os.Symlink("loop", at("loop"))
	tests := []struct{ path, reason string }{
		{"good", "must be an absolute path"},
		{at("missing"), "can't be used: no such file or directory"},
		{at("good/sink"), "can't be used: " + at("good") + " is not a directory"},
		{at("loop"), "can't be used: " + at("loop") + " has no target"},
		{at("open"), "is a directory"},
		{"/dev/null", "is not a regular file"},
		{at("data"), "is not executable: chmod +x it"},
		{at("loose"), "can be changed by others (mode 0775): chmod go-w " + at("loose")},
		{at("looser"), "can be changed by others (mode 0757): chmod go-w " + at("looser")},
		{at("link"), "leads to " + at("loose") + ", which can be changed by others (mode 0775): chmod go-w " + at("loose")},
		{at("open/sink"), "is below " + at("open") + ", which can be changed by others (mode 0777): chmod go-w " + at("open")},
		{at("open/own/sink"), "is below " + at("open") + ", which can be changed by others (mode 0777): chmod go-w " + at("open")},
		{at("open/link"), "leads to " + good + ", which is below " + at("open") + ", which can be changed by others (mode 0777): chmod go-w " + at("open")},
		{at("group/sink"), "is below " + at("group") + ", which can be changed by others (mode 0775): chmod go-w " + at("group")},
		{at("sticky/sink"), "is in " + at("sticky") + ", where others can put files next to it: move it to a separate directory"},
	}
	for _, test := range tests {
		_, err := findBinary(test.path, nil)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "command" || invalid.Reason != test.reason {
			t.Errorf("%s: got %v, want %s", test.path, err, test.reason)
		}
	}
	for path, want := range map[string]string{
		good: good, at("good-link"): good, at("sticky/own/sink"): at("sticky/own/sink"), at("sticky/link/sink"): at("sticky/own/sink"),
	} {
		if b, err := findBinary(path, nil); err != nil || b.path != want {
			t.Errorf("%s: got %v %v", path, b, err)
		}
	}
	for name, reason := range map[string]string{"foreign": "is built for another platform", "uninterpreted": "the interpreter in its first line"} {
		verifyNothingLeft(t)
		if _, err := Inspect(t.Context(), configOf(t, "x", map[string]any{"command": at(name)}), nil); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLongTempDir(t *testing.T) {
	verifyNothingLeft(t)
	dir := filepath.Join(os.TempDir(), strings.Repeat("d", 60))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	_, err := Inspect(t.Context(), configOf(t, "normal", nil), nil)
	if err == nil || !strings.Contains(err.Error(), "the path of TMPDIR is too long") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}
