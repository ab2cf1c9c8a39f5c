package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/internal/otlp/otlptest"
)

// TestReceiverInTrouble: while a receiver of OTLP does not answer, or is not there, all
// messages are delivered, what is not exported is counted, the log has a line of each
// outage, and the stop does not take longer than it may. All is set in the environment.
func TestReceiverInTrouble(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]func() string{
		"hangs":        func() string { c := otlptest.Start(t); c.Hold(); return c.GRPC },
		"is not there": func() string { return "http://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bridge, url := startTraced(t, endpoint())
			const messages = 100
			for range messages {
				if status := post(t, url+"/v1/messages", `{"topic":"orders","delay":"0s"}`); status != http.StatusCreated {
					t.Fatalf("status %d", status)
				}
			}
			poll.Until(t, time.Minute, "all is delivered, and what is not exported is counted", func() bool {
				got := scraped(t, url)
				return got["delaybridge_messages_delivered_total out "] == messages && got["delaybridge_spans_dropped_total"] >= 3*messages &&
					got["delaybridge_export_failures_total spans"] > 0 && got["delaybridge_export_failures_total metrics"] > 0
			})
			began := time.Now()
			bridge.signal(syscall.SIGTERM)
			if code := bridge.end(); code != exitOK {
				t.Errorf("exit code %d:\n%s", code, &bridge.seen)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("the stop took %s", took)
			}
			for _, signal := range []string{"spans", "metrics"} {
				if lines := strings.Count(bridge.seen.String(), "export fails, the bridge is not affected\" what="+signal); lines != 1 {
					t.Errorf("%d lines of the outage of %s:\n%s", lines, signal, &bridge.seen)
				}
			}
		})
	}
}

// startTraced returns a bridge that exports all, with room for few spans, and its URL.
func startTraced(t *testing.T, endpoint string) (bridge *started, url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf("store: {redis: {url: %q}}\nhttp: {listen: \"127.0.0.1:0\"}\nsinks: {out: {type: console}}\n", servers.Redis(t, servers.RedisOptions{}).URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "serve", "--config", path)
	cmd.Env = append(cmd.Env, "OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint,
		"OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BSP_EXPORT_TIMEOUT=200",
		"OTEL_METRIC_EXPORT_INTERVAL=200", "OTEL_METRIC_EXPORT_TIMEOUT=200")
	bridge = start(t, cmd, cmd.StderrPipe)
	return bridge, "http://" + bridge.await(`msg=ready.* http=(\S+)`)
}
