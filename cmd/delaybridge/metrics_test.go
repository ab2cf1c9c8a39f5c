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

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestMetricsOfServe scrapes a bridge on a real Redis. All metrics are those of
// docs/metrics.md, which a test in internal/metrics holds to the last.
func TestMetricsOfServe(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{Args: []string{"--maxmemory", "100mb"}})
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf("log: {format: json}\nstore: {redis: {url: %q}}\nhttp: {listen: \"127.0.0.1:0\"}\nmetrics: {listen: \"127.0.0.1:0\"}\n"+
		"sinks: {out: {type: console, metric_topics: [orders]}}\n", redis.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "serve", "--config", path)
	bridge := start(t, cmd, cmd.StderrPipe)
	line := bridge.await(`"msg":"ready".*("http":"[^"]+","metrics":"[^"]+")`)
	parts := strings.Split(line, `"`)
	api, metrics := "http://"+parts[3], "http://"+parts[7]
	for range 3 {
		if status := post(t, api+"/v1/messages", `{"topic":"orders","delay":"0s"}`); status != http.StatusCreated {
			t.Fatalf("status %d", status)
		}
	}
	post(t, api+"/v1/messages", `{"topic":"orders","delay":"1h"}`)
	post(t, api+"/v1/messages", `{`)
	want := map[string]float64{
		`delaybridge_messages_accepted_total http out orders`: 4, `delaybridge_messages_delivered_total out orders`: 3,
		`delaybridge_refused_total http malformed `: 1, `delaybridge_parked_messages out`: 1, `delaybridge_buckets out`: 16,
		`delaybridge_store_up`: 1, `delaybridge_config_generation`: 1, `delaybridge_redis_memory_limit_bytes`: 100 << 20,
	}
	poll.Until(t, time.Minute, "everything is counted", func() bool {
		got := scraped(t, metrics)
		for name, value := range want {
			if got[name] != value {
				return false
			}
		}
		return true
	})
	document, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range scraped(t, metrics) {
		if name, _, _ := strings.Cut(name, " "); strings.HasPrefix(name, "delaybridge_") && !strings.Contains(string(document), "| `"+name+"` |") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
	for url, want := range map[string]int{api + "/metrics": 404, metrics + "/v1/stats": 404, metrics + "/readyz": 200} {
		response, err := http.Get(url)
		if err != nil || response.StatusCode != want {
			t.Errorf("%s: %v %v", url, response, err)
		}
	}
	bridge.signal(syscall.SIGTERM)
	if code := bridge.end(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, &bridge.seen)
	}
}

func post(t *testing.T, url, body string) int {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// scraped returns the values by name and label values; of a histogram, its count.
func scraped(t *testing.T, url string) map[string]float64 {
	t.Helper()
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}
