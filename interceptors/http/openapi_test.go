package httplistener

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/internal/events"
)

func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(openapi)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// strictDocument has also as rules what the document leaves to text, for generated
// clients: answers have nothing else than described, and values are the known ones.
func strictDocument(t *testing.T) *openapi3.T {
	t.Helper()
	document := loadDocument(t)
	for name, schema := range document.Components.Schemas {
		restrict(t, name, schema.Value)
	}
	document.Components.Schemas["Outcome"].Value.Enum = []any{false, outcomeUnknown}
	live := document.Paths.Value("/livez").Get.Responses.Status(200).Value
	restrict(t, "live", live.Content["application/json"].Schema.Value)
	return document
}

// restrict reports what some generator can't read, or makes a client of that
// refuses additions.
func restrict(t *testing.T, name string, schema *openapi3.Schema) {
	more, open := &schema.AdditionalProperties, name != "Message" && name != "When"
	if len(schema.OneOf)+len(schema.AnyOf) > 0 || schema.Type == nil && len(schema.Enum) > 0 ||
		schema.Type.Is("object") && more.Schema == nil && (more.Has == nil || *more.Has != open) {
		t.Errorf("not for generators: %s", name)
	}
	if more.Has != nil {
		*more.Has = false
	}
	schema.Enum = known(schema.Description)
	schema.Nullable = schema.Nullable || schema.Type == nil // kin-openapi takes no null for any type
	for name, property := range schema.Properties {
		if property.Ref == "" { // else its turn comes, or has come
			restrict(t, name, property.Value)
		}
	}
}

// known are the values that a description lists, if it does.
func known(description string) (values []any) {
	text, list := strings.CutPrefix(description, "One of ")
	for n, value := range strings.Split(text[:max(0, strings.Index(text, ";"))], "`") {
		if list && n%2 == 1 {
			values = append(values, value)
		}
	}
	return values
}

// TestDocumentIsValid checks the document itself, with its examples.
func TestDocumentIsValid(t *testing.T) {
	document := loadDocument(t)
	if err := document.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.0.3" {
		t.Errorf("version %s", document.OpenAPI)
	}
}

func TestDocumentHasEveryRoute(t *testing.T) {
	f := newFixture(t, Config{Metrics: someMetrics()})
	var served, documented []string
	for pattern := range f.listener.handlers() {
		if strings.Contains(pattern, " ") {
			served = append(served, pattern)
		}
	}
	for path, item := range loadDocument(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentHasEveryCode(t *testing.T) {
	var documented []string
	for _, code := range known(loadDocument(t).Components.Schemas["Code"].Value.Description) {
		documented = append(documented, code.(string))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(codes)), slices.Sorted(slices.Values(documented))); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentIsServedWithoutToken(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken}})
	a := f.do("GET", "/openapi.yaml", "")
	if a.status != 200 || a.header.Get("Content-Type") != "application/yaml" || a.text != string(openapi) {
		t.Errorf("got %d %s, %d bytes", a.status, a.header.Get("Content-Type"), len(a.text))
	}
	if a := f.do("POST", "/openapi.yaml", "x"); a.status != 405 {
		t.Errorf("POST: %d", a.status)
	}
}

// TestDocumentFitsTheServer goes through every operation, in success and in
// failure, and holds what is sent and answered against the document.
func TestDocumentFitsTheServer(t *testing.T) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	w := &witness{T: t, document: strictDocument(t), seen: make(map[string]bool)}
	reloads := &reloads{}
	f := newFixture(t, Config{MaxRequestBytes: 2000, MaxBatchBytes: 3000, Metrics: someMetrics(), Events: events.New("here"), Reload: reloads.reload, LastReload: reloads.last}, "orders", "mails")
	w.observe(f)
	w.succeed(f)
	w.fail(f)
	w.failWith(t)
	w.describe()
	var missing []string
	for path, item := range w.document.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if name := method + " " + path + " " + status; !w.seen[name] && !slices.Contains(unseen, status) {
					missing = append(missing, name)
				}
			}
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("not seen:\n%s", strings.Join(missing, "\n"))
	}
}

// unseen are the statuses that this test does not bring about at each operation:
// they come before or after all of them alike, and have tests of their own.
var unseen = []string{"401", "403", "408", "421", "429", "500"}

func (w *witness) succeed(f *fixture) {
	at := time.Now().Add(time.Hour).Format(time.RFC3339)
	const json = "Content-Type: application/json"
	messages := []string{
		`{"id":"a/b","sink":"orders","topic":"t","delay":"1h","key":"k","headers":[{"name":"x","value":"1"}],"body":{"n":[1,true,null]},"priority":3}`,
		`{"sink":"mails","topic":"t","deliver_at":"` + at + `","ttl":"P1D","body_base64":"AP8=","key_base64":"/w==","headers":[{"name":"h","value_base64":"/w=="},{"name":"h","value":null}]}`,
		`{"id":"null","sink":"orders","topic":"t","delay":"1h","body":null,"options":{"retry.max_attempts":"3"}}`,
		`{"id":"two","sink":"orders","topic":"t","delay":"1h"}`, `{"id":"two","sink":"mails","topic":"t","delay":"1h"}`,
	}
	for _, m := range messages {
		w.want(f.do("POST", "/v1/messages", m, json), 201)
	}
	w.want(f.do("POST", "/v1/messages", messages[0], json), 200)
	batch := strings.Join([]string{messages[0], messages[1], `{"topic":"t"}`, `{`, `{"id":"two","sink":"mails","topic":"t","delay":"1h","body":1}`}, "\n")
	w.want(f.do("POST", "/v1/messages/batch", batch, "Content-Type: application/x-ndjson"), 200)
	array := "[" + strings.Join([]string{messages[0], messages[1], messages[2], `{"id":"two","sink":"mails","topic":"t","delay":"1h","body":1}`}, ",") + "]"
	w.want(f.do("POST", "/v1/messages/batch", array, json), 200)
	w.want(f.do("POST", "/v1/publish/orders/t", "text", "Delaybridge-Delay: 1h", "Delaybridge-Id: p", "Delaybridge-Priority: 9", "Delaybridge-Header-A: b", "Content-Type: text/plain"), 201)
	w.want(f.do("POST", "/v1/publish/orders/t", "text", "Delaybridge-Delay: 1h", "Delaybridge-Id: p", "Delaybridge-Priority: 9", "Delaybridge-Header-A: b", "Content-Type: text/plain"), 200)
	w.want(f.do("GET", "/v1/messages/a%2Fb?sink=orders&key=k", ""), 200)
	w.want(f.do("GET", "/v1/messages/null", ""), 200)
	w.want(f.do("GET", "/v1/messages?sink=orders&sink=mails&state=scheduled&state=retrying&topic=t&due_after=2020-01-01T00:00:00Z&due_before="+url.QueryEscape(at)+"&limit=2", ""), 200)
	page := f.do("GET", "/v1/messages?limit=2", "")
	w.want(f.do("GET", "/v1/messages?limit=2&cursor="+url.QueryEscape(page.json["next_cursor"].(string)), ""), 200)
	w.want(f.do("PATCH", "/v1/messages/null?sink=orders", `{"delay":"2h"}`, json), 200)
	w.want(f.do("POST", "/v1/messages/null/deliver-now", ""), 200)
	w.want(f.do("DELETE", "/v1/messages/p", ""), 200)
	w.want(f.do("GET", "/v1/messages/p", ""), 200)
	w.bury(f, "d1", "d2")
	w.want(f.do("GET", "/v1/dead?state=dead&state=expired&sink=orders", ""), 200)
	w.want(f.do("GET", "/v1/messages/d1", ""), 200)
	w.want(f.do("POST", "/v1/dead/d1/redrive", ""), 200)
	w.want(f.do("DELETE", "/v1/dead/d2", ""), 200)
	w.want(f.do("GET", "/v1/stats", ""), 200)
	w.want(f.do("GET", "/v1/stats?instance=memory", ""), 200)
	w.want(f.do("GET", "/v1/instances", ""), 200)
	w.want(f.do("GET", "/v1/timeline", ""), 200)
	w.want(f.do("GET", "/v1/timeline?step=10m&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z&sink=orders&sink=mails", ""), 200)
	w.want(f.do("HEAD", "/v1/events?sink=orders&event=dead&event=delivered&topic=t*&id=a&key=k&bodies=true", ""), 200)
	w.want(f.do("POST", "/v1/reload?dry_run=true", ""), 200)
	w.want(f.do("GET", "/metrics", ""), 200)
	w.want(f.do("GET", "/livez", ""), 200)
	w.want(f.do("GET", "/readyz", ""), 200)
	w.want(f.do("GET", "/problems/too_late", ""), 200)
	w.want(f.do("GET", "/openapi.yaml", ""), 200)
}

// bury makes dead letters.
func (w *witness) bury(f *fixture, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.want(f.do("POST", "/v1/messages", `{"id":"`+id+`","sink":"orders","topic":"t","delay":"0s","body_base64":"/w=="}`, "Content-Type: application/json"), 201)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	var left atomic.Int32
	left.Store(int32(len(ids)))
	_ = f.store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error { // ends with ctx
		for {
			batch, err := b.Take(ctx, 10)
			if err != nil {
				return err
			}
			var outcomes []core.Outcome
			for _, m := range batch.Messages {
				if slices.Contains(ids, m.ID) {
					outcomes = append(outcomes, core.Outcome{ID: m.ID, State: core.Dead, Attempts: 1, Reason: "refused", Error: "no"})
				}
			}
			if err := b.Settle(ctx, outcomes...); err != nil {
				return err
			}
			if left.Add(-int32(len(outcomes))) == 0 {
				cancel()
			}
			if err := b.Wait(ctx, batch.Next.Add(time.Hour)); err != nil {
				return nil
			}
		}
	})
}

// sick is a store whose every call ends with err.
type sick struct {
	failing
	err error
}

func (s *sick) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	return (&failing{err: s.err}).Park(context.Background(), messages...)
}
func (s *sick) Get(context.Context, core.Ref) (core.Entry, error)          { return core.Entry{}, s.err }
func (s *sick) Cancel(context.Context, core.Ref) (core.Receipt, error)     { return core.Receipt{}, s.err }
func (s *sick) Redrive(context.Context, core.Ref) (core.Receipt, error)    { return core.Receipt{}, s.err }
func (s *sick) Discard(context.Context, core.Ref) (core.Receipt, error)    { return core.Receipt{}, s.err }
func (s *sick) List(context.Context, core.Query) (core.Page, error)        { return core.Page{}, s.err }
func (s *sick) Stats(context.Context, ...string) ([]core.SinkStats, error) { return nil, s.err }
func (s *sick) Timeline(context.Context, core.TimelineQuery) (core.Timeline, error) {
	return core.Timeline{}, s.err
}
func (s *sick) Announce(func() []byte) string                          { return "sick" }
func (s *sick) Announced(context.Context) ([]core.Announcement, error) { return nil, s.err }
func (s *sick) Health(context.Context) error                           { return s.err }
func (s *sick) Reschedule(context.Context, core.Ref, core.When) (core.Receipt, error) {
	return core.Receipt{}, s.err
}

func (w *witness) fail(f *fixture) {
	const json = "Content-Type: application/json"
	good := `{"id":"two","sink":"orders","topic":"t","delay":"1h"`
	w.want(f.do("POST", "/v1/messages", good+`,"body":"other"}`, json), 409)
	w.want(f.do("POST", "/v1/messages", `{"topic":1}`, json), 400)
	w.want(f.do("POST", "/v1/messages", `{`, json), 400)
	w.want(f.do("POST", "/v1/messages", good+`,"body":"`+strings.Repeat("b", 3000)+`"}`, json), 413)
	w.want(f.do("POST", "/v1/messages", good+"}", "Content-Type: text/plain"), 415)
	w.want(f.do("POST", "/v1/messages/batch", "", "Content-Type: application/x-ndjson"), 400)
	w.want(f.do("POST", "/v1/messages/batch", strings.Repeat("b", 4000), "Content-Type: application/x-ndjson"), 413)
	w.want(f.do("POST", "/v1/messages/batch", good, "Content-Encoding: gzip"), 415)
	w.want(f.do("POST", "/v1/publish/orders/t", "other", "Delaybridge-Delay: 1h", "Delaybridge-Id: two"), 409)
	w.want(f.do("POST", "/v1/publish/orders/t", "b"), 400)
	w.want(f.do("POST", "/v1/publish/orders/t", strings.Repeat("b", 256<<10+1), "Delaybridge-Delay: 1h"), 413)
	w.want(f.do("POST", "/v1/publish/orders/t", "b", "Delaybridge-Delay: 1h", "Content-Encoding: br"), 415)
	w.want(f.do("POST", "/v1/publish/orders/t", "b", "Delaybridge-Delay: 1h", "Delaybridge-Header-A: "+strings.Repeat("a", 8<<10)), 431)
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/messages/%s", ""}, {"DELETE", "/v1/messages/%s", ""}, {"POST", "/v1/messages/%s/deliver-now", ""},
		{"PATCH", "/v1/messages/%s", `{"delay":"1h"}`}, {"POST", "/v1/dead/%s/redrive", ""}, {"DELETE", "/v1/dead/%s", ""},
	} {
		w.want(f.do(call.method, fmt.Sprintf(call.path, "nobody"), call.body), 404)
		w.want(f.do(call.method, fmt.Sprintf(call.path, "two"), call.body), 409)
		w.want(f.do(call.method, fmt.Sprintf(call.path, "a")+"?sink=x", call.body), 400)
	}
	w.want(f.do("DELETE", "/v1/messages/p", ""), 409)
	w.want(f.do("PATCH", "/v1/messages/two", `{}`), 400)
	w.want(f.do("PATCH", "/v1/messages/two", strings.Repeat(" ", 65<<10)+`{}`), 413)
	w.want(f.do("PATCH", "/v1/messages/two", `{}`, "Content-Type: text/plain"), 415)
	for _, path := range []string{"/v1/messages", "/v1/dead"} {
		w.want(f.do("GET", path+"?limit=0", ""), 400)
		w.want(f.do("GET", path+"?cursor=x", ""), 400)
	}
	w.want(f.do("GET", "/v1/stats?x=1", ""), 400)
	w.want(f.do("GET", "/v1/instances?x=1", ""), 400)
	w.want(f.do("GET", "/v1/timeline?step=0s", ""), 400)
	w.want(f.do("GET", "/v1/events?event=lost", ""), 400)
	w.subscribeAll()
	w.want(f.do("GET", "/v1/events", ""), 503)
	w.want(f.do("POST", "/v1/reload?dry_run=maybe", ""), 400)
	w.want(f.do("POST", "/v1/reload", ""), 422)
	w.want(f.do("GET", "/readyz", ""), 200)
	w.want(f.do("GET", "/problems/nothing", ""), 404)
}

// subscribeAll leaves no room for another reader of events.
func (w *witness) subscribeAll() {
	for range events.MaxReaders {
		if _, err := w.listener.config.Events.Subscribe(events.Filter{}, false); err != nil {
			w.Fatal(err)
		}
	}
}

// describe looks at the stats of a sink that tells about itself.
func (w *witness) describe() {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "plugged", Sink: described{}}).Interceptor
	listener, err := New(Config{}, in)
	if err != nil {
		w.Fatal(err)
	}
	w.listener = listener
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/v1/stats", nil))
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "running") {
		w.Errorf("got %d %s", answer.Code, answer.Body)
	}
}

// failWith has the store fail, and the listeners before it.
func (w *witness) failWith(t *testing.T) {
	for _, err := range []error{core.ErrUnavailable, core.ErrFull, core.ErrUnknown} {
		f := &fixture{T: t}
		f.serve(Config{}, &sick{err: err})
		w.observe(f)
		w.want(f.do("POST", "/v1/messages", `{"topic":"t","delay":"1h"}`), 503)
		w.want(f.do("POST", "/v1/messages/batch", `{"topic":"t","delay":"1h"}`, "Content-Type: application/x-ndjson"), 200)
		w.want(f.do("POST", "/v1/publish/orders/t", "", "Delaybridge-Delay: 1h"), 503)
		for _, call := range [][2]string{{"GET", "/v1/messages/a"}, {"DELETE", "/v1/messages/a"}, {"POST", "/v1/messages/a/deliver-now"},
			{"POST", "/v1/dead/a/redrive"}, {"DELETE", "/v1/dead/a"}, {"GET", "/v1/messages"}, {"GET", "/v1/dead"}, {"GET", "/v1/stats"}, {"GET", "/v1/instances"}, {"GET", "/v1/timeline"}, {"GET", "/readyz"}} {
			w.want(f.do(call[0], call[1], ""), 503)
		}
		w.want(f.do("PATCH", "/v1/messages/a", `{"delay":"1h"}`), 503)
	}
	f := &fixture{T: t}
	f.serve(Config{}, &failing{})
	w.observe(f)
	for _, path := range []string{"/v1/messages", "/v1/dead", "/v1/stats", "/v1/timeline", "/v1/events"} {
		w.want(f.do("GET", path, ""), 501)
	}
	w.want(f.do("POST", "/v1/reload", ""), 501)
	f = newFixture(t, Config{Tokens: []string{goodToken}})
	w.observe(f)
	for range 30 {
		f.do("GET", "/v1/stats", "")
	}
	if !w.seen["GET /v1/stats 401"] || !w.seen["GET /v1/stats 429"] {
		t.Error("tokens were not asked for")
	}
	f = &fixture{T: t}
	f.serve(Config{}, &failing{panic: true})
	w.observe(f)
	w.want(f.do("POST", "/v1/messages", `{"topic":"t","delay":"1h"}`), 500)
	w.want(f.do("POST", "/v1/messages", `{"topic":"t","delay":"1h"}`, "Sec-Fetch-Site: cross-site"), 403)
	w.want(f.raw("GET /v1/stats HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n"), 421)
}
