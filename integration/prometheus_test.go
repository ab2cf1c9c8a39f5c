//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestMonitored has a Prometheus scrape two bridges and evaluate the rules and the
// queries of the dashboards, while the broker is stopped and starts again.
func TestMonitored(t *testing.T) {
	t.Parallel()
	servers.NeedPrometheus(t)
	rabbit := servers.RabbitMQ(t)
	for _, queue := range []string{"orders", "orders.delayed", "orders.rejected"} {
		declareQueue(t, rabbit.URL(), queue)
	}
	redis := servers.Redis(t, servers.RedisOptions{Args: []string{"--maxmemory", "1gb"}})
	config := withSources(t, bridgeConfigOn(t, redis, map[string]*target{"broker": newRabbitTarget(rabbit.URL(), "orders"), "console": {kind: "console"}}),
		map[string]sourceConfig{"delayed": {"amqp", map[string]any{"urls": []string{rabbit.URL()}, "queues": []string{"orders.delayed"},
			"reject_queue": "orders.rejected", "sink": "broker", "topic": "orders"}}})
	m := &monitored{T: t, bridges: []*instance{serve(t, config, output(t)), serve(t, config, output(t))}}
	m.Prometheus = servers.Prometheus(t, prometheusConfig(t, m.bridges))

	m.park(1500) // so many that it is known how many more fit
	m.await("data", m.dataMissing)
	m.await("quiet", func() error {
		return m.stand("inactive", "DelaybridgeSinkPaused", "DelaybridgeSourceStopped", "DelaybridgeDown", "DelaybridgeStoreDown", "DelaybridgeClockOff")
	})
	rabbit.Kill()
	m.await("pause", func() error { return m.stand("firing", "DelaybridgeSinkPaused", "DelaybridgeSourceStopped") })
	if n, err := m.Prometheus.Query(`sum by (sink, reason) (delaybridge_sink_paused) > 0`); n == 0 {
		t.Errorf("no sink is paused: %v", err)
	}
	rabbit.Start()
	m.await("end of the pause", func() error { return m.stand("inactive", "DelaybridgeSinkPaused", "DelaybridgeSourceStopped") })
	for _, b := range m.bridges {
		b.stop()
	}
	m.bridges = nil
	m.await("end of the bridges", func() error { return m.stand("firing", "DelaybridgeDown") })
}

// prometheusConfig scrapes and evaluates often, with the rules as they are, but for how
// long they wait.
func prometheusConfig(t *testing.T, bridges []*instance) string {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(rules, []byte(regexp.MustCompile(`for: \d+m`).ReplaceAllString(contents(t, rulesFile), "for: 1s")), 0o600); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, b := range bridges {
		addrs = append(addrs, strings.TrimPrefix(b.url, "http://"))
	}
	text, err := json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
		"rule_files":     []string{rules},
		"scrape_configs": []any{map[string]any{"job_name": "delaybridge", "static_configs": []any{map[string]any{"targets": addrs}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// monitored are bridges that a Prometheus scrapes.
type monitored struct {
	*testing.T
	bridges    []*instance
	Prometheus *servers.PrometheusServer
	sent       int
}

// park has n messages wait until after the test.
func (m *monitored) park(n int) {
	m.Helper()
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = entry{ID: fmt.Sprintf("parked-%d", i), Sink: "console", Topic: "t", Body: []byte("body"), Delay: "2h"}
	}
	for part := range slices.Chunk(entries, 500) {
		if receipts, err := m.bridges[0].insist(part); err != nil || !receipts[0].accepted() {
			m.Fatalf("%v, %+v", err, receipts)
		}
	}
}

// load has each bridge that runs accept a message for each sink, and refuse one.
func (m *monitored) load() error {
	for _, b := range m.bridges {
		m.sent++
		id := fmt.Sprintf("m-%d", m.sent)
		if _, err := b.insist([]entry{{ID: id, Sink: "broker", Topic: "orders", Delay: "10ms"}, {ID: id, Sink: "console", Topic: "t", Delay: "10ms"}}); err != nil {
			return err
		}
		answer, err := http.Post(b.url+"/v1/messages", "application/json", strings.NewReader("{"))
		if err != nil {
			return err
		}
		answer.Body.Close()
	}
	return nil
}

// await tries, under load, until try succeeds.
func (m *monitored) await(what string, try func() error) {
	m.Helper()
	err := poll.Succeeds(recoverIn, func() error {
		time.Sleep(200 * time.Millisecond) // Prometheus looks no more often
		if err := m.load(); err != nil {
			return err
		}
		return try()
	})
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
}

// mayBeEmpty are what is there only if something has gone wrong or Redis fills up, and
// what RabbitMQ does not tell.
var mayBeEmpty = regexp.MustCompile(`messages_(retried|dead)_total|plugin_restarts_total|lag_seconds|redis_call_failures_total|sink_paused.*> 0|deriv\(`)

// dataMissing evaluates every query of the dashboards, and is an error if one has no data
// where there must be some.
func (m *monitored) dataMissing() error {
	variables := strings.NewReplacer("$job", "delaybridge", "$sink", ".+", "$__rate_interval", "5m")
	for file, d := range dashboards(m.T) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				n, err := m.Prometheus.Query(variables.Replace(target.Expr))
				if err == nil && n == 0 && !mayBeEmpty.MatchString(target.Expr) {
					err = errors.New("no data")
				}
				if err != nil {
					return fmt.Errorf("%s: %s: %s: %w", file, p.Title, target.Expr, err)
				}
			}
		}
	}
	return nil
}

// states are how alerts stand that are not quiet: pending or firing. An error is of a
// rule that could not be evaluated.
func (m *monitored) states() (map[string]string, error) {
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	if err := m.Prometheus.Get("rules", &answer); err != nil {
		return nil, err
	}
	states := make(map[string]string)
	for _, group := range answer.Groups {
		for _, r := range group.Rules {
			if r.Health != "ok" {
				return nil, fmt.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
			}
			states[r.Name] = r.State
		}
	}
	return states, nil
}

// stand is an error unless the alerts are firing, or inactive.
func (m *monitored) stand(state string, alerts ...string) error {
	states, err := m.states()
	if err != nil {
		return err
	}
	if len(states) != len(alertRules(m.T)) {
		return fmt.Errorf("there are only %v", slices.Sorted(maps.Keys(states)))
	}
	for _, alert := range alerts {
		if states[alert] != state {
			return fmt.Errorf("%s is %s, want %s", alert, states[alert], state)
		}
	}
	return nil
}
