package httplistener

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// described is a sink that tells something about itself.
type described struct{ core.Sink }

func (described) Describe() map[string]string { return map[string]string{"state": "running"} }

func TestStatsHaveDetails(t *testing.T) {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "plugged", Sink: described{}}, &core.Dispatcher{Name: "plain"}).Interceptor
	listener, err := New(Config{}, in)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/stats", nil))
	got := answer.Body.String()
	if answer.Code != http.StatusOK || strings.Count(got, `"details"`) != 1 || !strings.Contains(got, `"details":{"state":"running"}`) {
		t.Errorf("got %d %s", answer.Code, got)
	}
}

func TestStatsHaveSources(t *testing.T) {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "plain"}).Interceptor
	in.SetAbout(core.About{Version: "v1", Config: "c0ffee", Listeners: map[string]string{"http": "127.0.0.1:1"}, Sources: func() []core.SourceReport {
		return []core.SourceReport{{Source: "a", Parked: 4, Duplicates: 3, Rejected: 2, Retried: 1, Lag: 0}, {Source: "b", Lag: -1, LagTime: -1, Skipped: 7, Trouble: "a bad record", Since: time.UnixMilli(0), Stopped: true}, {Source: "c", Lag: 9, LagTime: 1500 * time.Millisecond, Trouble: "no broker", Since: time.UnixMilli(0)}}
	}})
	listener, err := New(Config{}, in)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/stats", nil))
	want := `"sources":[{"instance":"memory","source":"a","parked":4,"duplicates":3,"rejected":2,"retried":1,"lag":0,"lag_ms":0,"state":"running"},` +
		`{"instance":"memory","source":"b","parked":0,"duplicates":0,"rejected":0,"skipped":7,"retried":0,"state":"stopped","trouble":"a bad record","trouble_since":"1970-01-01T00:00:00.000Z"},` +
		`{"instance":"memory","source":"c","parked":0,"duplicates":0,"rejected":0,"retried":0,"lag":9,"lag_ms":1500,"state":"retrying","trouble":"no broker","trouble_since":"1970-01-01T00:00:00.000Z"}]`
	if got := answer.Body.String(); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	answer = httptest.NewRecorder()
	listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
	if got := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(got, `"ready":true`) || !strings.Contains(got, `"sources":{"b":"stopped","c":"retrying"}`) {
		t.Errorf("got %d %s", answer.Code, got)
	}
}

func TestInstances(t *testing.T) {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "plain"}).Interceptor
	in.SetAbout(core.About{Version: "v1", Config: "c0ffee", Listeners: map[string]string{"http": "127.0.0.1:1"},
		Sources: func() []core.SourceReport { return []core.SourceReport{{Source: "a", Lag: -1, LagTime: -1}} }})
	in.Accept(t.Context(), &core.Message{Topic: "t", Delay: time.Hour})
	listener, err := New(Config{}, in)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) string {
		answer := httptest.NewRecorder()
		listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		return strings.TrimSpace(answer.Body.String())
	}
	const none = `"accepted":0,"republished":0,"repeated":0,"refused":0,"delivered":0,"retried":0,"unknown":0,"dead":0,"expired":0`
	one := strings.Replace(none, "0", "1", 1)
	const late = `,"lateness_ms":{"p50":0,"p99":0,"max":0}}`
	work := `"in_flight":0,"since_start":{` + one + `},"last_1m":{` + one + late + `,"last_5m":{` + one + late + `,"last_60m":{` + one + late + `}`
	got := ask("/v1/instances")
	_, rest, _ := strings.Cut(got, `"started_at":"`)
	began, _, _ := strings.Cut(rest, `"`)
	want := `{"instances":[{"instance":"memory","self":true,"age_ms":0,"version":"v1","config":"c0ffee","started_at":"` + began + `","listeners":{"http":"127.0.0.1:1"},` +
		`"sinks":[{"sink":"plain","owned":0,` + work + `],"sources":[{"source":"a","parked":0,"duplicates":0,"rejected":0,"retried":0,"state":"running"}]}]}`
	if at, err := core.ParseTime(began); got != want || err != nil || time.Since(at) > time.Minute {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = ask("/v1/stats?instance=memory")
	_, rest, _ = strings.Cut(got, `"next_due":"`)
	due, _, _ := strings.Cut(rest, `"`)
	want = `{"durability":"memory","instances":1,"sinks":[{"sink":"plain","scheduled":1,"due":0,"retrying":0,"dead":0,"buckets":16,"next_due":"` + due + `","owned":0,` + work +
		`],"sources":[{"instance":"memory","source":"a","parked":0,"duplicates":0,"rejected":0,"retried":0,"state":"running"}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for path, field := range map[string]string{"/v1/stats?instance=other": "instance", "/v1/stats?instance=": "instance", "/v1/instances?a=1": "a",
		"/v1/timeline?step=0s": "step", "/v1/timeline?step=-1s": "step", "/v1/timeline?step=1": "step", "/v1/timeline?step=": "step", "/v1/timeline?sink=x": "sink",
		"/v1/timeline?from=x": "from", "/v1/timeline?from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00Z": "to",
		"/v1/timeline?from=2030-01-01T00:00:00Z&to=2030-01-02T00:00:00Z": "step", "/v1/timeline?step=1h&step=2h": "step"} {
		if got := ask(path); !strings.Contains(got, `"code":"invalid"`) || !strings.Contains(got, `"field":"`+field+`"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	want = `{"from":"` + due + `","to":"`
	if got := ask("/v1/timeline?step=10s&from=" + due); !strings.HasPrefix(got, want) || !strings.Contains(got, `"step_ms":10000,"before":0,"after":0,"steps":[{"at":"`+due+`","due":1},{"at":"`) || strings.Count(got, `"due":`) != 60 {
		t.Errorf("got %s", got)
	}
}
