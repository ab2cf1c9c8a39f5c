// Package plugintest runs a test binary as a plugin, so that the tests of a sink can
// also run it as a plugin without building another program:
//
//	func TestMain(m *testing.M) { os.Exit(plugintest.Main(m, definition).Run()) }
//
//	func TestPlugin(t *testing.T) {
//		sink := plugintest.Open(t, definition.Name, settings)
package plugintest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// Main returns m. In a process that a host has started as a plugin, it instead serves
// the definition named by the first argument, and does not return.
func Main(m interface{ Run() int }, definitions ...plugin.Definition) interface{ Run() int } {
	const cookie = "DELAYBRIDGE_PLUGIN" // as in docs/plugins.md
	if os.Getenv(cookie) == "" || len(os.Args) < 2 {
		return m
	}
	at := slices.IndexFunc(definitions, func(d plugin.Definition) bool { return d.Name == os.Args[1] })
	if at < 0 {
		return m
	}
	plugin.Serve(definitions[at])
	return nil
}

// Open starts the definition with that name as a plugin, with sha256 and mTLS. settings
// are the plugin's own settings. The caller must close the sink.
func Open(t testing.TB, name string, settings any) core.Sink {
	t.Helper()
	sink, err := plugin.Opener(nil)(t.Context(), Config(t, name, settings))
	if err != nil {
		t.Fatalf("open the plugin: %v", err)
	}
	return sink
}

// Config returns the host's configuration of a plugin in this test binary, with sha256.
// settings are the plugin's own settings.
func Config(t testing.TB, name string, settings any) json.RawMessage {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	config, err := json.Marshal(map[string]any{
		"command": path, "args": []string{name}, "sha256": checksum(t, path), "config": settings,
		// The race detector would hold up the end of each plugin by a second.
		"env": map[string]string{"GORACE": "atexit_sleep_ms=0"},
	})
	if err != nil {
		t.Fatalf("write the settings: %v", err)
	}
	return config
}

func checksum(t testing.TB, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("open the test binary: %v", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		t.Fatalf("read the test binary: %v", err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
