package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

const (
	// pythonTrouble and nodeTrouble are sinks that take 30 ms to check a message and
	// fail to deliver any, at length.
	pythonTrouble = `import time
from delaybridge_plugin import Definition, Invalid, Retry

class Sink:
    def check(self, message):
        time.sleep(0.03)
        if message.topic == "bad":
            raise Invalid("topic", "\ud800" + "x" * 10_000_000)

    def deliver(self, batch, timeout):
        return [Retry("\U0001f600" * 5_000_000) for _ in batch]

    def close(self):
        pass

definition = Definition(name="trouble", version="1", open=lambda config: Sink(), checks=True)
`
	nodeTrouble = `const { Retry, Invalid } = require("./delaybridge-plugin");
class Sink {
  async check({ topic }) {
    await new Promise((resolve) => setTimeout(resolve, 30));
    if (topic === "bad") throw new Invalid("topic", "\ud800" + "x".repeat(10e6));
  }
  async deliver(batch) { return batch.map(() => new Retry("x" + "\u{1f600}".repeat(5e6))); }
  async close() {}
}
module.exports = { name: "trouble", version: "1", open: () => new Sink(), checks: true };
`
)

// TestKitsBearTrouble: what the templates bring for other languages cuts the texts of
// errors, so that a reply with many of them can be read, and checks a batch at once.
func TestKitsBearTrouble(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches packages, and -short is set")
	}
	interpreter := servers.Python()
	for language, kit := range map[string]struct {
		has                     bool
		what, sink, text, built string
		mtls                    bool
	}{
		"python": {interpreter != "", "Python with grpcio and protobuf; run make deps", "plugin/sink.py", pythonTrouble, "bin/delaybridge-sink-trouble", false},
		"node":   {servers.HasProgram("npm") && servers.HasProgram("node"), "node and npm; run make deps", "sink.js", nodeTrouble, "plugin.js", true},
	} {
		t.Run(language, func(t *testing.T) {
			servers.Need(t, kit.has && servers.HasProgram("make"), kit.what)
			dir := t.TempDir()
			files, err := Project{Name: "trouble", Language: language}.files()
			if err != nil {
				t.Fatal(err)
			}
			files[kit.sink] = kit.text
			if err := writeFiles(dir, files); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("make", "build", "PYTHON="+interpreter)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("make: %v\n%s", err, out)
			}
			config := fmt.Sprintf(`{"command": %q, "mtls": %v}`, filepath.Join(dir, kit.built), kit.mtls)
			sink, err := plugin.Opener(nil)(t.Context(), json.RawMessage(config))
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			bearsTrouble(t, sink)
		})
	}
}

func bearsTrouble(t *testing.T, sink core.Sink) {
	t.Helper()
	batch := make([]*core.Message, 500)
	for n := range batch {
		batch[n] = &core.Message{ID: fmt.Sprint(n), Topic: "t", DeliverAt: time.UnixMilli(1), Attempt: 1}
	}
	batch[7].Topic = "bad"
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // as the HTTP listener gives it
	defer cancel()
	results, ok := errors.AsType[core.BatchError](sink.(core.Checker).Check(ctx, batch))
	if !ok || len(results) != len(batch) {
		t.Fatalf("Check: %d results", len(results))
	}
	for n, err := range results {
		if _, invalid := errors.AsType[*core.InvalidError](err); invalid != (n == 7) {
			t.Errorf("Check: message %d: %v", n, err)
		}
	}
	results, ok = errors.AsType[core.BatchError](sink.Deliver(t.Context(), batch[:50]))
	if !ok || len(results) != 50 {
		t.Fatalf("Deliver: %d results", len(results))
	}
	for n, err := range results {
		if core.ClassOf(err) != core.Retry || len(err.Error()) > 2*core.MaxErrorText {
			t.Errorf("Deliver: message %d: %v", n, core.Shorten(fmt.Sprint(err), 200))
		}
	}
	if details := sink.(core.Describer).Describe(); details["restarts"] != "0" {
		t.Errorf("details %v", details)
	}
}
