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
	listener, err := New(Config{Sources: func() []core.SourceReport {
		return []core.SourceReport{{Source: "a", Parked: 4, Duplicates: 3, Rejected: 2, Retried: 1, Lag: 0}, {Source: "b", Lag: -1, Skipped: 7, Trouble: "a bad record", Since: time.UnixMilli(0), Stopped: true}, {Source: "c", Trouble: "no broker", Since: time.UnixMilli(0)}}
	}}, in)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/stats", nil))
	want := `"sources":[{"source":"a","parked":4,"duplicates":3,"rejected":2,"retried":1,"lag":0,"state":"running"},` +
		`{"source":"b","parked":0,"duplicates":0,"rejected":0,"skipped":7,"retried":0,"state":"stopped","trouble":"a bad record","trouble_since":"1970-01-01T00:00:00.000Z"},` +
		`{"source":"c","parked":0,"duplicates":0,"rejected":0,"retried":0,"lag":0,"state":"retrying","trouble":"no broker","trouble_since":"1970-01-01T00:00:00.000Z"}]`
	if got := answer.Body.String(); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	answer = httptest.NewRecorder()
	listener.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
	if got := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(got, `"ready":true`) || !strings.Contains(got, `"sources":{"b":"stopped","c":"retrying"}`) {
		t.Errorf("got %d %s", answer.Code, got)
	}
}
