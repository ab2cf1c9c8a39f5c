package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestDocumentHasEveryMetric compares the table of docs/metrics.md with what there is
// after a run in which everything happens.
func TestDocumentHasEveryMetric(t *testing.T) {
	var rows []string
	fullRun(t, func(m *Metrics) {
		families, err := m.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "delaybridge_") {
				continue
			}
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, "`"+l.GetName()+"`")
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp()))
		}
	})
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `delaybridge_") {
			documented = append(documented, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(rows, documented); diff != "" {
		t.Errorf("docs/metrics.md (-what there is +what it says):\n%s\nThe table should be:\n%s", diff, strings.Join(rows, "\n"))
	}
}

func scrapeAs(t testing.TB, m *Metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, r)
	if recorder.Code != http.StatusOK {
		t.Fatalf("%d %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

// TestExemplars: of each batch, the latest message with a trace.
func TestExemplars(t *testing.T) {
	const openMetrics = "application/openmetrics-text; version=1.0.0"
	const trace, other = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
	m := New(Config{Topics: map[string][]string{"orders": nil}})
	inBridge(t, m, func(ctx context.Context, bridge *core.Bridge) {
		message := func(delay time.Duration, trace string) *core.Message {
			m := &core.Message{Sink: "orders", Topic: "t", Key: []byte("k"), Delay: delay}
			if trace != "" {
				m.Headers = []core.Header{{Name: "traceparent", Value: []byte("00-" + trace + "-00f067aa0ba902b7-01")}}
			}
			return m
		}
		bridge.Accept(ctx, message(0, "")) // delivered alone, while the others become due
		synctest.Wait()
		bridge.Accept(ctx, message(time.Millisecond, ""), message(2*time.Millisecond, trace), message(5*time.Millisecond, other), message(9*time.Millisecond, other))
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	if got := scrape(t, m); !slices.Contains(got, `delaybridge_delivery_lateness_seconds_count{sink="orders"} 5`) {
		t.Errorf("not every message is observed:\n%s", strings.Join(got, "\n"))
	}
	text := scrapeAs(t, m, openMetrics)
	if n := strings.Count(text, "trace_id="); n != 1 || !strings.Contains(text, `# {trace_id="`+trace+`"}`) {
		t.Errorf("%d exemplars:\n%s", n, text)
	}
	if text := scrapeAs(t, m, "text/plain"); strings.Contains(text, "trace_id") {
		t.Error("the text format has exemplars")
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "delaybridge_delivery_lateness_seconds" && !strings.Contains(f.String(), "schema:3") {
			t.Errorf("not a native histogram: %s", f)
		}
	}
}

// hanging is a store whose stats never come.
type hanging struct{ *memstore.Store }

func (hanging) Stats(ctx context.Context, _ ...string) ([]core.SinkStats, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestScrapeWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Topics: map[string][]string{"orders": nil}})
		bridge := core.NewBridge(hanging{memstore.New(memstore.Config{})}, core.Options{Observer: m.Observer()}, &core.Dispatcher{Name: "orders", Sink: &scripted{}})
		m.Watch(Watched{Bridge: bridge.Interceptor, Memory: func(context.Context) (Memory, error) { return Memory{}, errors.New("down") }})
		bridge.Accept(t.Context(), &core.Message{Sink: "orders", Topic: "t"})
		began := time.Now()
		lines := scrape(t, m)
		if took := time.Since(began); took != askTimeout {
			t.Errorf("took %s, want %s", took, askTimeout)
		}
		wantDown(t, lines)
		began = time.Now()
		if scrape(t, m); time.Since(began) != 0 {
			t.Error("the store is asked again at once")
		}
	})
}

func wantDown(t *testing.T, lines []string) {
	t.Helper()
	for _, want := range []string{"delaybridge_store_up 0", `delaybridge_in_flight_messages{sink="orders"} 0`} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "delaybridge_messages_accepted_total{") || strings.Contains(text, "delaybridge_parked_messages") {
		t.Errorf("not what is known without a store:\n%s", text)
	}
}

// TestScrapeWithFrozenRedis: an answer within seconds, and the counts again when Redis is back.
func TestScrapeWithFrozenRedis(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	m := New(Config{Topics: map[string][]string{"orders": nil}})
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{server.Addr()}, Called: m.OnRedisCall})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	bridge := core.NewBridge(store, core.Options{Observer: m.Observer()}, &core.Dispatcher{Name: "orders", Sink: &scripted{}})
	m.Watch(Watched{Bridge: bridge.Interceptor, Memory: func(ctx context.Context) (Memory, error) {
		memory, err := store.Memory(ctx)
		return Memory(memory), err
	}})
	bridge.Accept(t.Context(), &core.Message{Sink: "orders", Topic: "t", Delay: time.Hour})
	up := []string{"delaybridge_store_up 1", `delaybridge_parked_messages{sink="orders"} 1`}
	lines := scrape(t, m)
	for _, want := range append(up, `delaybridge_redis_call_duration_seconds_count{script="park"} 1`) {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	server.Pause()
	time.Sleep(statsFor)
	began := time.Now()
	wantDown(t, scrape(t, m))
	if took := time.Since(began); took > askTimeout+time.Second {
		t.Errorf("took %s", took)
	}
	server.Resume()
	deadline := time.Now().Add(10 * time.Second)
	for lines = scrape(t, m); !slices.Contains(lines, up[0]) && time.Now().Before(deadline); lines = scrape(t, m) {
		time.Sleep(100 * time.Millisecond)
	}
	if !slices.Contains(lines, up[1]) {
		t.Errorf("Redis is back:\n%s", strings.Join(lines, "\n"))
	}
}
