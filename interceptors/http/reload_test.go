package httplistener

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core/memstore"
)

// reloads refuses each reload that is not a dry run.
type reloads struct{ err error }

func (r *reloads) reload(_ context.Context, dryRun bool) (any, error) {
	if dryRun {
		return map[string]any{"generation": 1, "parked": map[string]int{"gone": 3},
			"changes": []map[string]string{{"key": "log.level", "change": "changed", "old": "info", "new": "debug"}}}, nil
	}
	r.err = errors.New("c.yaml:1:1: error: store.redis.prefix: needs a restart")
	return nil, r.err
}

func (r *reloads) last() error { return r.err }

func TestReload(t *testing.T) {
	r := &reloads{}
	f := newFixture(t, Config{Tokens: []string{goodToken}, Reload: r.reload, LastReload: r.last})
	if a := f.do("POST", "/v1/reload", ""); a.status != 401 || r.err != nil {
		t.Errorf("without a token: %d", a.status)
	}
	if a := f.do("POST", "/v1/reload?dry_run=true", "", bearer(goodToken)); a.status != 200 || a.json["generation"] != 1.0 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("GET", "/readyz", ""); a.json["configuration"] != nil {
		t.Errorf("got %s", a.text)
	}
	if a := f.do("POST", "/v1/reload", "", bearer(goodToken)); a.status != 422 || a.json["code"] != "reload_refused" || a.json["changed"] != false ||
		!strings.Contains(a.text, "store.redis.prefix") {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("GET", "/readyz", ""); a.status != 200 || a.json["ready"] != true || a.json["configuration"] != "last reload failed" {
		t.Errorf("to a stranger: %d %s", a.status, a.text)
	}
	if a := f.do("GET", "/readyz", "", bearer(goodToken)); a.json["configuration"] != "last reload failed: "+r.err.Error() {
		t.Errorf("got %s", a.text)
	}
}

// Where anyone may send messages, nobody from another machine may reload.
func TestReloadWithoutTokens(t *testing.T) {
	r := &reloads{}
	s, err := New(Config{Listen: ":0", Insecure: true, Reload: r.reload}, interceptor(memstore.New(memstore.Config{}), "orders"))
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "http://192.0.2.1/v1/reload", nil))
	if answer.Code != 401 || r.err != nil {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
}
