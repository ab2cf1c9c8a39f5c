package main

import (
	"bytes"
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
		"the plugin's own": {"      config:\n        folder: /tmp\n", ":8:17: error: sinks.files.config.config.folder: is not known; known is dir"},
		"its kind":         {"      config: {dir: relative}\n", ":7:21: error: sinks.files.config.config.dir: must be an absolute path"},
		"the pin":          {"      sha256: " + strings.Repeat("a", 64) + "\n", ":7:15: error: sinks.files.config.sha256: is not that of " + command},
		"the host's":       {"      comand: x\n", "sinks.files.config.comand: is not a setting of a plugin sink"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "c.yaml", head+test.settings)
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), []string{"config", "check", file}, strings.NewReader(""), &stdout, &stderr); code != exitConfig {
				t.Errorf("code %d", code)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("got %s, want %s in it", &stderr, test.want)
			}
		})
	}
}
