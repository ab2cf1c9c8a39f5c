//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestBrokenPluginAtTheStart: a plugin that does not start is its own sink's trouble. The
// bridge starts, says so, delivers for the other sink and accepts for both; what has
// waited is delivered when the plugin has become good.
func TestBrokenPluginAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, good := filepath.Join(dir, "sink"), filepath.Join(dir, "good")
	if out, err := exec.Command("go", "build", "-o", good, "../examples/plugins/file").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	broken := func() { // as after an update that went wrong
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho cannot open libbroker.so >&2\nexit 127\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	broken()
	config := fmt.Sprintf(`store: {redis: {url: "%s"}, lease: 1s}
http: {listen: "127.0.0.1:0"}
sinks:
  orders: {type: console, config: {format: json}}
  files: {type: plugin, config: {command: %s, config: {dir: %s}}}
`, servers.Redis(t, servers.RedisOptions{}).URL(), program, dir)
	out, err := os.Create(filepath.Join(dir, "delivered"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	i := serve(t, config, out)
	for _, sink := range []string{"orders", "files"} {
		if code := i.postTo(sink, "to-"+sink); code != http.StatusCreated {
			t.Fatalf("%s: status %d\n%s", sink, code, &i.Logs)
		}
	}
	i.await("delivery by the other sink", func() bool { return len(deliveries(t, out.Name())["to-orders"]) == 1 })
	var health struct {
		Ready bool
		Sinks map[string]string
	}
	if err := i.get("/readyz", &health); err != nil || !health.Ready || health.Sinks["files"] == "" || health.Sinks["orders"] != "" {
		t.Errorf("readyz: %v, %+v", err, health)
	}
	if stats := i.text("/v1/stats"); !strings.Contains(stats, "cannot open libbroker.so") {
		t.Errorf("stats: %s", stats)
	}
	const line = `level=ERROR msg="plugin failed to start, its sink is blocked and its messages wait" sink=files`
	if !strings.Contains(i.Logs.String(), line) {
		t.Errorf("the log has no %q:\n%s", line, &i.Logs)
	}
	if err := os.Rename(good, program); err != nil {
		t.Fatal(err)
	}
	i.await("delivery by the plugin", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "t.jsonl"))
		return strings.Contains(string(text), `"id":"to-files"`)
	})
	i.await("readiness", func() bool { return !strings.Contains(i.text("/readyz"), "files") })
	i.stop()

	broken() // and with required, nothing starts
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "required.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(config, "command:", "required: true, command:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(path, "serve", "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "cannot open libbroker.so") {
		t.Errorf("%v\n%s", err, text)
	}
}

func (i *instance) postTo(sink, id string) int {
	i.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"sink":%q,"topic":"t","delay":"0s","body":%q}`, id, sink, id)
	answer, err := http.Post(i.url+"/v1/messages", "application/json", strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func (i *instance) text(path string) string {
	i.t.Helper()
	var raw json.RawMessage
	if err := i.get(path, &raw); err != nil {
		i.t.Fatal(err)
	}
	return string(raw)
}

// await waits for longer than it takes until a plugin that is quarantined is tried again.
func (i *instance) await(what string, holds func() bool) {
	i.t.Helper()
	if !poll.Holds(3*time.Minute, holds) {
		i.t.Fatalf("there is no %s:\n%s", what, &i.Logs)
	}
}
