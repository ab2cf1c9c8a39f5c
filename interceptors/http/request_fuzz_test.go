package httplistener

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// fuzzListener is a server before a store that keeps nothing or little.
func fuzzListener(f *testing.F) (http.Handler, *spy) {
	f.Helper()
	store := &spy{Store: memstore.New(memstore.Config{})}
	listener, err := New(Config{Log: slog.New(slog.DiscardHandler)}, interceptor(store, "orders"))
	if err != nil {
		f.Fatal(err)
	}
	return listener.Handler(), store
}

// FuzzPublish: a request to publish, with whatever headers, stores one message
// with just those headers that were meant for it, or is refused and stores
// none. The answer never repeats what could end a header or a line.
func FuzzPublish(f *testing.F) {
	f.Add("Delaybridge-Delay: 1h\r\nContent-Type: text/plain\r\nDelaybridge-Header-Trace: a\r\n", "body")
	f.Add("delaybridge_delay: 1h\r\nDelaybridge-Id: a/b\r\nDelaybridge-Key: k\r\nDelaybridge-Priority: 9\r\nDelaybridge-TTL: 2h\r\n", "")
	f.Add("Delaybridge-Delay: 1h\r\nDelaybridge-Delay: 2h\r\n", "x")
	f.Add("Delaybridge-Header-A: 1\r\ndelaybridge_header_a: 2\r\nDelaybridge-Header-: 3\r\n", "x")
	f.Add("Delaybridge-Header-Delaybridge-Id: forged\r\nDelaybridge-Delay: 0s\r\n", "x")
	f.Add("Delaybridge-Deliver-At: 9999-12-31T23:59:59Z\r\nAuthorization: Bearer x\r\nContent-Encoding: gzip\r\n", "x")
	f.Add("Delaybridge-Delay: 1h\r\nDelaybridge-Nonsense\x7f: \xff\r\n", "x")
	handler, store := fuzzListener(f)
	f.Fuzz(func(t *testing.T, head, body string) {
		text := "POST /v1/publish/orders/topic HTTP/1.1\r\nHost: localhost\r\n" + head + "\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(body))
		store.Store, store.parked = memstore.New(memstore.Config{}), nil
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		checkAnswer(t, answer, http.StatusCreated)
		if stored := answer.Code == http.StatusCreated; stored != (len(store.parked) == 1) || len(store.parked) > 1 {
			t.Fatalf("answer %d, %d messages stored", answer.Code, len(store.parked))
		}
		if answer.Code == http.StatusCreated {
			checkPublished(t, store.parked[0], r.Header, body)
		}
	})
}

// checkPublished compares a message with the headers that were sent for it.
func checkPublished(t *testing.T, m *core.Message, sent http.Header, body string) {
	t.Helper()
	if string(m.Body) != body || m.Sink != "orders" || m.Topic != "topic" || core.IsReservedHeader(m.Sink) {
		t.Errorf("stored %+v", m)
	}
	var want, got []string
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		lower := strings.ToLower(name)
		own, forwarded := strings.CutPrefix(strings.ReplaceAll(lower, "_", "-"), "delaybridge-header-")
		if !forwarded && lower != "content-type" {
			continue
		}
		if forwarded {
			lower = lower[len(lower)-len(own):]
		}
		for _, value := range sent[name] {
			want = append(want, lower+": "+value)
		}
	}
	for _, h := range m.Headers {
		got = append(got, h.Name+": "+string(h.Value))
		if core.IsReservedHeader(h.Name) {
			t.Errorf("a producer wrote %q", h.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("sent %q, stored %q", want, got)
	}
}

// FuzzQuery: whatever a path and a query say, a call that reads answers 200, or
// 4xx with a problem of bounded size.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "sink=orders&state=scheduled&limit=1", "limit=0", "limit=9223372036854775808", "limit=501", "cursor=AAAA", "cursor=%ff",
		"due_after=2031-01-01T00:00:00Z&due_before=2030-01-01T00:00:00Z", "due_after=-1", "sink=&sink=a", "topic=%0d%0aSet-Cookie:x", "state=dead&state=scheduled",
		"sink=%zz", "a;b", "limit=1&limit=2", "\u202e=1", "key=%00&key_base64=AA", "key_base64=AA==", "Sink=orders"} {
		f.Add("messages", seed)
		f.Add("dead", seed)
		f.Add("messages/a", seed)
		f.Add("messages/%2e%2e%2Fstats", seed)
	}
	handler, store := fuzzListener(f)
	for _, r := range store.Park(f.Context(), &core.Message{ID: "a", Sink: "orders", Topic: "t"}, &core.Message{ID: "b", Sink: "orders", Topic: "t"}) {
		if r.Err != nil {
			f.Fatal(r.Err)
		}
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		target, err := url.ParseRequestURI("/v1/" + path)
		if err != nil || strings.ContainsAny(query, "#") {
			return
		}
		target.RawQuery = query
		r := &http.Request{Method: http.MethodGet, URL: target, Host: "localhost", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		checkAnswer(t, answer, http.StatusOK)
		store.pages = nil
	})
}

// checkAnswer lets pass what is as expected, or a problem that says what the
// request did wrong.
func checkAnswer(t *testing.T, answer *httptest.ResponseRecorder, good int) {
	t.Helper()
	for name, values := range answer.Header() {
		for _, value := range values {
			if strings.ContainsFunc(name+value, unicode.IsControl) {
				t.Errorf("header %q: %q", name, value)
			}
		}
	}
	text := answer.Body.Bytes()
	if bytes.Count(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) > 0 && answer.Code != http.StatusOK {
		t.Errorf("more than a line: %q", text)
	}
	switch {
	case answer.Code == good, answer.Code == http.StatusOK && !json.Valid(text):
	case answer.Code < 400 || answer.Code >= 500 || len(text) > 1000 || !json.Valid(text):
		t.Errorf("got %d %q", answer.Code, text)
	}
}
