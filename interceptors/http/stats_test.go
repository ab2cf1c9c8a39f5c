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
