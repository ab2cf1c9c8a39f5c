package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake answers every request with the same, and keeps what was asked.
type fake struct {
	status      int
	contentType string
	body        string // empty: a receipt of the message that the request names
	asked       []string
	sent        []string
	tokens      []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	f.sent = append(f.sent, string(body))
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", f.contentType)
	if f.status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(f.status)
	if f.body == "" {
		f.body = receiptOf(r, body)
	}
	io.WriteString(w, f.body)
}

func receiptOf(r *http.Request, body []byte) string {
	var m struct{ ID string }
	json.Unmarshal(body, &m)
	if parts := strings.Split(r.URL.EscapedPath(), "/"); m.ID == "" && len(parts) > 3 {
		m.ID, _ = neturl.PathUnescape(parts[3])
	}
	return fmt.Sprintf(`{"id":%q,"state":"scheduled"}`, m.ID)
}

// ask runs a client command against f.
func ask(t *testing.T, f *fake, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	t.Setenv(envURL, server.URL)
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader("from stdin"), &out, &errs)
	return code, out.String(), strings.ReplaceAll(errs.String(), server.URL, "URL")
}

func TestRequests(t *testing.T) {
	const at = "2030-01-31T09:00:00Z"
	tests := []struct {
		args []string
		asks string
		body string
	}{
		{[]string{"cancel", "a/b?c#d"}, "DELETE /v1/messages/a%2Fb%3Fc%23d", ""},
		{[]string{"cancel", "--sink", "s", "--key", "k&", "x"}, "DELETE /v1/messages/x?key=k%26&sink=s", ""},
		{[]string{"cancel", "--key", "", "x"}, "DELETE /v1/messages/x?key=", ""},
		{[]string{"cancel", "--key", "\xff", "x"}, "DELETE /v1/messages/x?key_base64=%2Fw%3D%3D", ""},
		{[]string{"deliver-now", "x"}, "POST /v1/messages/x/deliver-now", ""},
		{[]string{"reschedule", "x", "--delay", "2h"}, "PATCH /v1/messages/x", `{"delay":"2h0m0s"}`},
		{[]string{"reschedule", "x", "--deliver-at", at}, "PATCH /v1/messages/x", `{"deliver_at":"2030-01-31T09:00:00Z"}`},
		{[]string{"get", "x"}, "GET /v1/messages/x", ""},
		{[]string{"list"}, "GET /v1/messages?limit=100", ""},
		{[]string{"list", "--limit", "1000", "--sink", "a", "--sink", "b", "--state", "retrying", "--topic", "t", "--due-after", at, "--due-before", at, "--cursor", "c"},
			"GET /v1/messages?cursor=c&due_after=2030-01-31T09%3A00%3A00Z&due_before=2030-01-31T09%3A00%3A00Z&limit=500&sink=a&sink=b&state=retrying&topic=t", ""},
		{[]string{"dead", "list", "--state", "expired"}, "GET /v1/dead?limit=100&state=expired", ""},
		{[]string{"dead", "redrive", "x"}, "POST /v1/dead/x/redrive", ""},
		{[]string{"dead", "discard", "x"}, "DELETE /v1/dead/x", ""},
		{[]string{"stats"}, "GET /v1/stats", ""},
		{[]string{"send", "--topic", "t", "--id", "i", "--delay", "1s"}, "POST /v1/messages", `{"id":"i","topic":"t","body":"from stdin","delay":"1s"}`},
		{[]string{"send", "--sink", "s", "--topic", "t", "--id", "i", "--deliver-at", at, "--ttl", "2h", "--priority", "3", "--key", "", "--body", "\xff", "--header", "a=1=2", "--header", "a=", "--option", "o=p"},
			"POST /v1/messages",
			`{"id":"i","topic":"t","sink":"s","key":"","headers":[{"name":"a","value":"1=2"},{"name":"a","value":""}],"body_base64":"/w==","deliver_at":"2030-01-31T09:00:00Z","ttl":"2h0m0s","priority":3,"options":{"o":"p"}}`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			f := &fake{status: http.StatusOK, contentType: "application/json"}
			t.Setenv(envToken, "secret-secret-secret")
			code, _, stderr := ask(t, f, tt.args...)
			if code != exitOK {
				t.Fatalf("code %d: %s", code, stderr)
			}
			got := []string{f.asked[0], f.sent[0], f.tokens[0]}
			if diff := cmp.Diff([]string{tt.asks, tt.body, "Bearer secret-secret-secret"}, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestSendAgainAfterALostReply: the bridge has stored the message and the answer is
// lost. What send then says to do does not store it twice.
func TestSendAgainAfterALostReply(t *testing.T) {
	url, stop := startDev(t, "--no-samples")
	defer stop()
	bridge, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(bridge)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	lossy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	defer lossy.Close()
	send := func(to string, more ...string) (code int, stdout, stderr string) {
		t.Setenv(envURL, to)
		var out, errs bytes.Buffer
		code = run(context.Background(), append([]string{"send", "--topic", "t", "--delay", "1h", "--body", "hi"}, more...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, _, stderr := send(lossy.URL)
	again := regexp.MustCompile(`to be sure, send it again with (--id) (\S+)\n$`).FindStringSubmatch(stderr)
	if code != exitUnreachable || again == nil {
		t.Fatalf("code %d: %s", code, stderr)
	}
	code, stdout, stderr := send(url, again[1:]...)
	if code != exitOK || !strings.Contains(stdout, again[2]) || !strings.Contains(stdout, "duplicate") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	_, stdout, _ = send(url)
	if strings.Contains(stdout, "duplicate") {
		t.Errorf("another message: %s", stdout)
	}
}

func TestAnswersBecomeExitCodes(t *testing.T) {
	problem := func(status int, more string) *fake {
		return &fake{status: status, contentType: "application/problem+json",
			body: fmt.Sprintf(`{"title":"T","status":%d,"code":"c","detail":"it is so"%s}`, status, more)}
	}
	tests := []struct {
		name   string
		fake   *fake
		code   int
		stderr string
	}{
		{"invalid", problem(400, ""), exitUsage, "delaybridge: it is so [c]\n"},
		{"too large", problem(413, ""), exitUsage, "delaybridge: it is so [c]\n"},
		{"no token", problem(401, ""), exitDenied, "delaybridge: it is so [c]\n"},
		{"not found", &fake{status: 404, contentType: "application/problem+json", body: `{"status":404,"code":"not_found","detail":"gone"}`}, exitNotFound, "delaybridge: gone [not_found]\n"},
		{"a path without a bridge", problem(404, ""), exitFailed, "delaybridge: it is so [c]\n"},
		{"too late", problem(409, `,"state":"delivering"`), exitConflict, "delaybridge: it is so, it is delivering [c]\n"},
		{"unavailable", problem(503, `,"stored":false`), exitUnreachable, "delaybridge: it is so [c]\n"},
		{"send: unknown", problem(503, `,"stored":"unknown","id":"x1"`), exitUnreachable, "delaybridge: it is so; to be sure, send it again with --id x1 [c]\n"},
		{"failed", problem(500, ""), exitFailed, "delaybridge: it is so [c]\n"},
		{"hostile", problem(400, `,"state":"\u001b[2J\u009b\n\u202e"`), exitUsage, "delaybridge: it is so, it is \\x1b[2J\\u009b\\n\\u202e [c]\n"},
		{"another server", &fake{status: 404, contentType: "text/html", body: "<h1>\x1b[2J"}, exitFailed,
			"delaybridge: ask URL: the answer 404 Not Found is not delaybridge's\n"},
		{"another server that is content", &fake{status: 200, contentType: "text/html", body: "{}"}, exitFailed,
			"delaybridge: ask URL: the answer 200 OK is not delaybridge's\n"},
		{"not JSON", &fake{status: 200, contentType: "application/json", body: "{"}, exitFailed,
			"delaybridge: read the answer: not a receipt: unexpected end of JSON input\n"},
		{"other status within", &fake{status: 500, contentType: "application/problem+json", body: `{"status":404}`}, exitFailed,
			"delaybridge: ask URL: the answer 500 Internal Server Error is not delaybridge's\n"},
		{"redirect", &fake{status: 302, contentType: "text/plain"}, exitFailed,
			"delaybridge: ask URL: the answer 302 Found is not delaybridge's\n"},
		{"other shape", &fake{status: 200, contentType: "application/json", body: `[1]`}, exitFailed,
			"delaybridge: read the answer: not a receipt: json: cannot unmarshal array into Go value of type client.receiptJSON\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"cancel", "x"}
			if strings.HasPrefix(tt.name, "send") {
				args = []string{"send", "--topic", "t", "--delay", "1s", "--id", "x1"}
			}
			code, stdout, stderr := ask(t, tt.fake, args...)
			if diff := cmp.Diff([]any{tt.code, "", tt.stderr}, []any{code, stdout, stderr}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if len(tt.fake.asked) != 1 {
				t.Errorf("asked %d times", len(tt.fake.asked))
			}
		})
	}
}

// TestTokenIsNotPrinted looks at everything that a failing command says.
func TestTokenIsNotPrinted(t *testing.T) {
	const token = "hunter2hunter2hunter2"
	t.Setenv(envToken, token)
	for _, args := range [][]string{{"stats"}, {"stats", "--help"}, {"stats", "--token", token, "--nosuch"}, {"stats", "--token", token + "\n"}, {"stats", "--url", "http://127.0.0.1:1"}} {
		code, stdout, stderr := ask(t, &fake{status: 500, contentType: "text/plain", body: token}, args...)
		if strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%q: code %d, the token shows:\n%s%s", args, code, stdout, stderr)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	var stderr bytes.Buffer
	begin := time.Now()
	code := run(t.Context(), []string{"stats", "--url", server.URL, "--timeout", "50ms"}, nil, io.Discard, &stderr)
	if want := "delaybridge: ask " + server.URL + ": no answer within 50ms\n"; code != exitUnreachable || stderr.String() != want {
		t.Errorf("code %d, %q, want %q", code, stderr.String(), want)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// pages serves a list of n messages, with an empty page among them.
type pages struct{ left, served int }

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var limit int
	fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	page := map[string]any{"messages": []map[string]string{}}
	if p.served++; p.served != 2 {
		n := min(limit, p.left, 200)
		messages := make([]map[string]string, n)
		for i := range messages {
			messages[i] = map[string]string{"id": fmt.Sprintf("m%d", p.left-i)}
		}
		p.left -= n
		page["messages"] = messages
	}
	if p.left > 0 {
		page["next_cursor"] = fmt.Sprintf("after-%d", p.left)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(page)
}

func TestListWalksPages(t *testing.T) {
	tests := []struct {
		stored int
		limit  string
		want   int
		more   string
	}{
		{450, "1000", 450, ""},
		{450, "300", 300, "There is more: continue with --cursor after-150\n"},
		{0, "10", 0, ""},
	}
	for _, tt := range tests {
		server := httptest.NewServer(&pages{left: tt.stored})
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"list", "--url", server.URL, "--limit", tt.limit}, nil, &stdout, &stderr)
		server.Close()
		if got := strings.Count(stdout.String(), "\n") - 1; code != exitOK || got != tt.want || stderr.String() != tt.more {
			t.Errorf("%d stored, limit %s: code %d, %d lines, %q; want %d and %q", tt.stored, tt.limit, code, got, stderr.String(), tt.want, tt.more)
		}
	}
}

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"plain":             "plain",
		"grüße 你好":          "grüße 你好",
		`say "hi" \o/`:      `say "hi" \o/`,
		"a\tb\nc\r":         `a\tb\nc\r`,
		"\x1b[31mred":       `\x1b[31mred`,
		"\u009b1m\u202eabc": `\u009b1m\u202eabc`,
		"\xff\x00":          `\xff\x00`,
		"\"\x00":            `"\x00`,
	}
	for in, want := range tests {
		if got := escape(in); got != want {
			t.Errorf("%q became %s, want %s", in, got, want)
		}
	}
}

func TestEscapeJSON(t *testing.T) {
	in, err := json.Marshal("a\x7f\u009b\u202e\U000E0001\u2028é\t")
	if err != nil {
		t.Fatal(err)
	}
	got := escapeJSON(in)
	if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' && r != 'é' }) {
		t.Errorf("got %q", got)
	}
	var back string
	if err := json.Unmarshal([]byte(got), &back); err != nil || back != "a\x7f\u009b\u202e\U000E0001\u2028é\t" {
		t.Errorf("it reads back as %q, %v", back, err)
	}
}
