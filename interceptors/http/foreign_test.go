package httplistener

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// TestPublishInOtherDialects: headers of dialects that are on say when, and what
// is not about that arrives with the message.
func TestPublishInOtherDialects(t *testing.T) {
	store := memstore.New(memstore.Config{})
	in := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "plain"}).Interceptor
	listener, err := New(Config{Dialects: []string{"cloudevents", "rabbitmq"}}, in)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		headers map[string]string
		code    int
		want    string // in the answer
		kept    string // names of the message's headers
	}{
		"a CloudEvent":         {map[string]string{"ce-id": "1", "ce-source": "/a", "ce-deliverat": "2090-01-01T00:00:00Z"}, 400, "deliver_at", ""},
		"its delay":            {map[string]string{"Ce-Id": "1", "Ce-Source": "/a", "Ce-Deliverdelay": "90s", "Delaybridge-Id": "event"}, 201, `"id":"event"`, "ce-id ce-source"},
		"x-delay":              {map[string]string{"X-Delay": "5000", "Delaybridge-Id": "rabbit"}, 201, `"id":"rabbit"`, ""},
		"a delay that is over": {map[string]string{"X-Delay": "-5000", "Delaybridge-Id": "over"}, 201, `"id":"over"`, ""},
		"two delays":           {map[string]string{"X-Delay": "5000", "Delaybridge-Delay": "5s"}, 400, `"field":"delay"`, ""},
		"two that disagree":    {map[string]string{"X-Delay": "5000", "Ce-Deliverdelay": "6s"}, 400, "x-delay", ""},
		"no number":            {map[string]string{"X-Delay": "soon"}, 400, "x-delay", ""},
		"one that is off":      {map[string]string{"Nats-Schedule": "@at 2090-01-01T00:00:00Z"}, 400, "deliver_at", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodPost, "http://localhost/v1/publish/plain/t", strings.NewReader("body"))
			for header, value := range test.headers {
				request.Header.Set(header, value)
			}
			answer := httptest.NewRecorder()
			listener.server.Handler.ServeHTTP(answer, request)
			if answer.Code != test.code || !strings.Contains(strings.ToLower(answer.Body.String()), test.want) {
				t.Fatalf("got %d %s, want %d with %s", answer.Code, answer.Body, test.code, test.want)
			}
			if test.code != 201 {
				return
			}
			entry, err := in.Get(t.Context(), core.Ref{ID: test.headers["Delaybridge-Id"]})
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			for _, h := range entry.Message.Headers {
				kept = append(kept, h.Name)
			}
			if got := strings.Join(kept, " "); got != test.kept {
				t.Errorf("the message has %q, want %q", got, test.kept)
			}
		})
	}
}

func TestDialectsAreChecked(t *testing.T) {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}).Interceptor
	for _, names := range [][]string{{"native"}, {"rabbit"}, {"nats", "nats"}} {
		if _, err := New(Config{Dialects: names}, in); err == nil || !strings.HasPrefix(err.Error(), "dialects: ") {
			t.Errorf("%v: %v", names, err)
		}
	}
}
