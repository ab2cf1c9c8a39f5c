//go:build unix

// Package clients tests that clients in other languages, generated from the
// descriptions of the HTTP and gRPC APIs, compile and work with a bridge.
package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// sinks has one sink that delivers and one that can't, where messages expire: so there
// are dead letters.
const sinks = `sinks:
  console: {type: console}
  unreachable: {type: amqp, config: {urls: ["amqp://127.0.0.1:1"]}}
`

var (
	httpLine = regexp.MustCompile(`(?m)^  http   (http://\S+)$`)
	grpcLine = regexp.MustCompile(`(?m)^  grpc   (\S+)$`)
)

// startBridge runs `delaybridge dev` until the test ends, and returns the URL of its
// HTTP listener and the address of its gRPC listener.
func startBridge(t *testing.T) (url, grpc string) {
	t.Helper()
	dir := t.TempDir()
	program, config := filepath.Join(dir, "delaybridge"), filepath.Join(dir, "sinks.yaml")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/delaybridge").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.WriteFile(config, []byte(sinks), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed journal.Journal
	cmd := exec.Command(program, "dev", "--no-samples", "--config", config, "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &printed, t.Output()
	ended, err := servers.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	poll.Holds(time.Minute, func() bool { return len(printed.Find(grpcLine)) > 0 })
	urls, addrs := printed.Find(httpLine), printed.Find(grpcLine)
	if len(urls) == 0 || len(addrs) == 0 {
		t.Fatalf("the bridge did not start:\n%s", printed.Tail())
	}
	return urls[0], addrs[0]
}

// wantSteps looks whether a program has taken each step.
func wantSteps(t *testing.T, out string, steps ...string) {
	t.Helper()
	for _, step := range steps {
		if !strings.Contains(out, "done: "+step+"\n") {
			t.Errorf("the program has not taken the step %q:\n%s", step, out)
		}
	}
}
