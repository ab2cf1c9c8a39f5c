package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginFaultsHaveTheirPlace: what a plugin says about its settings, and what
// we say about it, is told with file, line and key.
func TestPluginFaultsHaveTheirPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, and -short is set")
	}
	command := filepath.Join(t.TempDir(), "delaybridge-sink-file")
	if out, err := exec.Command("go", "build", "-o", command, "../../examples/plugins/file").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	head := "store: {redis: {url: \"redis://127.0.0.1:1\"}}\nsinks:\n  files:\n    type: plugin\n    config:\n      command: " + command + "\n"
	tests := map[string]struct{ settings, want string }{
		"deep: the plugin's own": {"      config:\n        folder: /tmp\n", ":8:17: error: sinks.files.config.config.***: is not known; known is dir"},
		"deep: its kind":         {"      config: {dir: relative}\n", ":7:21: error: sinks.files.config.config.dir: must be an absolute path"},
		"the pin":                {"      sha256: " + strings.Repeat("a", 64) + "\n", ":7:15: error: sinks.files.config.sha256: is not that of ***, which has "},
		"the host's":             {"      comand: x\n", "sinks.files.config.comand: is not a setting of a plugin sink"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "c.yaml", head+test.settings)
			var stdout, stderr bytes.Buffer
			check := func(want int, args ...string) {
				t.Helper()
				if code := run(t.Context(), append([]string{"config", "check", file}, args...), strings.NewReader(""), &stdout, &stderr); code != want {
					t.Errorf("%v: code %d\n%s", args, code, &stderr)
				}
			}
			if strings.HasPrefix(name, "deep") {
				check(exitOK) // only the plugin could know
				check(exitConfig, "--deep")
			} else {
				check(exitConfig)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("got %s, want %s in it", &stderr, test.want)
			}
		})
	}
}

// TestConfigCheckExecutesNothing unless it is asked to.
func TestConfigCheckExecutesNothing(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "was-here")
	command := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(command, []byte("#!/bin/sh\necho >"+trace+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "c.yaml", "store: {redis: {url: \"redis://127.0.0.1:1\"}}\nsinks: {mine: {type: plugin, config: {command: "+command+"}}}\n")
	for _, deep := range []bool{false, true} {
		code := run(t.Context(), []string{"config", "check", fmt.Sprintf("--deep=%t", deep), file}, strings.NewReader(""), io.Discard, io.Discard)
		_, err := os.Stat(trace)
		if (code == exitOK) == deep || (err == nil) != deep {
			t.Errorf("deep: %t: code %d; executed: %t", deep, code, err == nil)
		}
	}
}
