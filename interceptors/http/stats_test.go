package httpdoor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// described is a sink that tells something about itself.
type described struct{ core.Sink }

func (described) Describe() map[string]string { return map[string]string{"state": "running"} }

func TestStatsHaveFacts(t *testing.T) {
	in := core.NewInterceptor(memstore.New(memstore.Config{}), core.Limits{},
		&core.Dispatcher{Name: "plugged", Sink: described{}}, &core.Dispatcher{Name: "plain"})
	door, err := New(Config{}, in)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	door.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/stats", nil))
	got := answer.Body.String()
	if answer.Code != http.StatusOK || strings.Count(got, `"facts"`) != 1 || !strings.Contains(got, `"facts":{"state":"running"}`) {
		t.Errorf("got %d %s", answer.Code, got)
	}
}

func TestStatsHaveIntakes(t *testing.T) {
	in := core.NewInterceptor(memstore.New(memstore.Config{}), core.Limits{}, &core.Dispatcher{Name: "plain"})
	door, err := New(Config{Intakes: func() []IntakeReport {
		return []IntakeReport{{Intake: "a", Parked: 4, Duplicates: 3, Rejected: 2, Retried: 1, Lag: 0}, {Intake: "b", Lag: -1}}
	}}, in)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	door.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/stats", nil))
	want := `"intakes":[{"intake":"a","parked":4,"duplicates":3,"rejected":2,"retried":1,"lag":0},{"intake":"b","parked":0,"duplicates":0,"rejected":0,"retried":0}]`
	if got := answer.Body.String(); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}
