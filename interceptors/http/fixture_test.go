package httplistener

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// spy is a store that remembers what it was asked to park.
type spy struct {
	core.Store
	mu     sync.Mutex
	parked []*core.Message
	pages  []core.Query
}

func (s *spy) List(ctx context.Context, query core.Query) (core.Page, error) {
	s.pages = append(s.pages, query)
	return s.Store.(core.Inspector).List(ctx, query)
}

func (s *spy) Unwrap() core.Store { return s.Store }

func (s *spy) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		kept := *m
		kept.Body, kept.Key = cloneNil(m.Body), cloneNil(m.Key)
		kept.Headers = nil
		for _, h := range m.Headers {
			kept.Headers = append(kept.Headers, core.Header{Name: h.Name, Value: cloneNil(h.Value)})
		}
		s.parked = append(s.parked, &kept)
	}
	return s.Store.Park(ctx, messages...)
}

func cloneNil(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// failing is a store whose calls all end with err.
type failing struct {
	core.Store
	err   error
	state core.State
	panic bool
}

func (f *failing) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	if f.panic {
		panic("told to")
	}
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		id := m.ID
		if id == "" {
			id = "generated"
		}
		receipts[n] = core.Receipt{ID: id, Sink: m.Sink, Err: f.err}
	}
	return receipts
}

func (f *failing) Get(context.Context, core.Ref) (core.Entry, error) { return core.Entry{}, f.err }

func (f *failing) Cancel(context.Context, core.Ref) (core.Receipt, error) {
	return core.Receipt{State: f.state}, f.err
}

func (f *failing) Health(context.Context) error { return f.err }

// fixture is a server on loopback before a store in memory.
type fixture struct {
	*testing.T
	listener *Server
	store    *spy
	http     *httptest.Server
}

func newFixture(t *testing.T, config Config, sinks ...string) *fixture {
	t.Helper()
	store := &spy{Store: memstore.New(memstore.Config{})}
	f := &fixture{T: t, store: store}
	f.serve(config, store, sinks...)
	return f
}

func (f *fixture) serve(config Config, store core.Store, sinks ...string) {
	f.Helper()
	if len(sinks) == 0 {
		sinks = []string{"orders"}
	}
	listener, err := New(config, interceptor(store, sinks...))
	if err != nil {
		f.Fatal(err)
	}
	f.listener, f.http = listener, httptest.NewUnstartedServer(nil)
	f.http.Config = listener.server
	f.http.Start()
	f.Cleanup(f.http.Close)
}

func interceptor(store core.Store, sinks ...string) *core.Interceptor {
	var dispatchers []*core.Dispatcher
	for _, name := range sinks {
		dispatchers = append(dispatchers, &core.Dispatcher{Name: name})
	}
	return core.NewBridge(store, core.Options{}, dispatchers...).Interceptor
}

func newFailing(t *testing.T, store *failing) *fixture {
	t.Helper()
	f := &fixture{T: t, store: &spy{Store: store}}
	f.serve(Config{}, store)
	return f
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	json   map[string]any
	close  bool // the server ends the connection
}

// do sends a request; headers are "Name: value" lines.
func (f *fixture) do(method, path, body string, headers ...string) answer {
	f.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, f.http.URL, reader)
	if err != nil {
		f.Fatal(err)
	}
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = splitTarget(f.T, path)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	return f.send(r)
}

func splitTarget(t *testing.T, target string) (path, raw, query string) {
	t.Helper()
	raw, query, _ = strings.Cut(target, "?")
	path, err := url.PathUnescape(raw)
	if err != nil {
		t.Fatal(err)
	}
	return path, raw, query
}

func (f *fixture) send(r *http.Request) answer {
	f.Helper()
	response, err := f.http.Client().Do(r)
	if err != nil {
		f.Fatal(err)
	}
	return readAnswer(f.T, response)
}

func readAnswer(t *testing.T, response *http.Response) answer {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, text: string(text), close: response.Close}
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		_ = json.Unmarshal(text, &a.json) // a batch is more than one value
	}
	return a
}

// raw writes bytes to a connection of its own and reads one answer.
func (f *fixture) raw(request string) answer {
	f.Helper()
	conn := f.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		f.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		f.Fatal(err)
	}
	return readAnswer(f.T, response)
}

func (f *fixture) dial() net.Conn {
	f.Helper()
	conn, err := net.Dial("tcp", f.http.Listener.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		f.Fatal(err)
	}
	return conn
}

// mustStore posts a message and returns its id.
func (f *fixture) mustStore(envelope string) string {
	f.Helper()
	a := f.do("POST", "/v1/messages", envelope)
	if a.status != 201 {
		f.Fatalf("got %d %s", a.status, a.text)
	}
	return a.json["id"].(string)
}

// refused checks an answer that is a problem and that nothing was stored.
func (f *fixture) refused(a answer, status int, code string) {
	f.Helper()
	if a.status != status || a.json["code"] != code {
		f.Errorf("got %d %s, want %d %s", a.status, a.text, status, code)
		return
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		f.Errorf("content type %q", got)
	}
	if a.json["type"] != "/problems/"+code || a.json["status"] != float64(status) || a.json["title"] == "" || a.json["detail"] == "" {
		f.Errorf("not a whole problem: %s", a.text)
	}
	if len(f.store.parked) != 0 {
		f.Errorf("the store was asked to park %d messages", len(f.store.parked))
	}
}

func envelopeWith(members string) string {
	return fmt.Sprintf(`{"topic":"t","delay":"1h",%s}`, members)
}
