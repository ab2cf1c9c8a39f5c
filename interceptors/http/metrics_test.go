package httplistener

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

func someMetrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, "up 1\n")
	})
}

// TestMetricsNeedAToken but for those who are on this machine.
func TestMetricsNeedAToken(t *testing.T) {
	const local, network = "127.0.0.1:0", "0.0.0.0:0"
	for _, test := range []struct {
		name, listen   string
		tokens         []string
		insecure       bool
		token, host    string
		status, others int // of /metrics, and of /v1/stats
	}{
		{"loopback", local, nil, false, "", "localhost", 200, 200},
		{"loopback, by another name", local, nil, false, "", "rebound.example", 421, 421},
		{"loopback with tokens", local, []string{goodToken}, false, "", "127.0.0.1:7420", 200, 401},
		{"loopback with tokens, by another name", local, []string{goodToken}, false, "", "bridge.example", 401, 401},
		{"loopback with tokens, by another name with one", local, []string{goodToken}, false, goodToken, "bridge.example", 200, 200},
		{"network", network, []string{goodToken}, false, "", "localhost", 401, 401},
		{"network, with a token", network, []string{goodToken}, false, goodToken, "bridge.example", 200, 200},
		{"network, with a wrong token", network, []string{goodToken}, false, "0123456789abcdefgh", "bridge.example", 401, 401},
		{"insecure", network, nil, true, "", "bridge.example", 200, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Listen: test.listen, Tokens: test.tokens, Insecure: test.insecure, Metrics: someMetrics()}
			s, err := New(config, interceptor(memstore.New(memstore.Config{}), "orders"))
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]int{"/metrics": test.status, "/v1/stats": test.others} {
				r := httptest.NewRequest("GET", "http://"+test.host+path, nil)
				if test.token != "" {
					r.Header.Set("Authorization", "Bearer "+test.token)
				}
				answer := httptest.NewRecorder()
				s.Handler().ServeHTTP(answer, r)
				if answer.Code != want {
					t.Errorf("%s: %d, want %d", path, answer.Code, want)
				}
			}
		})
	}
}

func TestMetricsOnly(t *testing.T) {
	f := newFixture(t, Config{Metrics: someMetrics(), MetricsOnly: true})
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 200, "/v1/stats": 404, "/v1/messages": 404, "/openapi.yaml": 404} {
		if a := f.do("GET", path, ""); a.status != want {
			t.Errorf("%s: %d, want %d", path, a.status, want)
		}
	}
	if a := newFixture(t, Config{}).do("GET", "/metrics", ""); a.status != 404 {
		t.Errorf("without metrics: %d", a.status)
	}
}

// TestObserverIsToldOnce: what the listener refuses by itself is no call of Accept.
func TestObserverIsToldOnce(t *testing.T) {
	var mu sync.Mutex
	var told []string
	note := func(what string) { mu.Lock(); defer mu.Unlock(); told = append(told, what) }
	observer := core.Observer{
		Accepted: func(_ context.Context, a core.Acceptance) {
			for _, r := range a.Receipts {
				note(a.Input + " accepted " + r.ID)
			}
		},
		Refused: func(_ context.Context, r core.Refusal) { note(r.Input + " refused " + r.Reason) },
		Changed: func(_ context.Context, c core.Change) { note(c.Input + " changed " + c.Ref.ID) },
	}
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{Observer: observer}, &core.Dispatcher{Name: "orders"}).For("http")
	s, err := New(Config{}, in)
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string, want ...string) {
		t.Helper()
		told = nil
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body)))
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", method, path, body, diff)
		}
	}
	good := `{"id":"good","topic":"t","delay":"1h"}`
	do("POST", "/v1/messages", good, "http accepted good")
	do("POST", "/v1/messages", `{"id":"bad","topic":"t t","delay":"1h"}`, "http accepted bad") // core refuses it
	do("POST", "/v1/messages", `{`, "http refused malformed")
	do("POST", "/v1/messages", `{"id":"a","delay":"1h","deliver_at":"never"}`, "http refused invalid")
	do("POST", "/v1/messages/batch", good+"\n{\n"+`{"id":"next","topic":"t","delay":"1h"}`+"\n[", "http refused malformed", "http refused malformed", "http accepted good", "http accepted next")
	do("POST", "/v1/publish/orders/t", "body", "http refused invalid")
	do("PUT", "/v1/messages", "", "http refused method_not_allowed")
	do("GET", "/v1/messages/nothing", "")
	do("DELETE", "/v1/messages/nothing", "", "http changed nothing")
	do("PATCH", "/v1/messages/good", `{`, "http refused malformed")
	do("GET", "/v2", "", "http refused no_such_route")
}

func TestEveryCodeIsAWordOfMetrics(t *testing.T) {
	for code := range codes {
		if !slices.Contains(apierror.All(), code) {
			t.Errorf("%s is missing in apierror.All", code)
		}
	}
	if len(codes) != len(apierror.All()) {
		t.Errorf("%d codes, and apierror.All has %d", len(codes), len(apierror.All()))
	}
}
