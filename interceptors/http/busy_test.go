package httplistener

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core/memstore"
)

// raw sends one request on a connection and returns the answer.
func rawRequest(t *testing.T, conn net.Conn, head, body string) (status int, text string, closed bool) {
	t.Helper()
	if _, err := io.WriteString(conn, head+"\r\nHost: localhost\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all), answer.Close
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Producers fill the connections: health is told all the same, others are told to
// come again, and do when one has left.
func TestConnectionsAreBounded(t *testing.T) {
	const most = 3
	const post = "POST /v1/publish/orders/t HTTP/1.1\r\nDelaybridge-Delay: 1h\r\nContent-Length: 1"
	addr, stop := start(t, Config{MaxConnections: most}, memstore.New(memstore.Config{}))
	defer stop()
	var producers []net.Conn
	for range most {
		conn := dialRaw(t, addr)
		if status, text, _ := rawRequest(t, conn, post, "x"); status != 201 {
			t.Fatalf("got %d %s", status, text)
		}
		producers = append(producers, conn)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, text, closed := rawRequest(t, dialRaw(t, addr), "GET "+path+" HTTP/1.1", ""); status != 200 || !closed {
			t.Errorf("%s: got %d %s, closed: %t", path, status, text, closed)
		}
	}
	status, text, closed := rawRequest(t, dialRaw(t, addr), post, "x")
	if status != 503 || !closed || !strings.Contains(text, `"code":"busy"`) || !strings.Contains(text, `"stored":false`) {
		t.Errorf("got %d %s, closed: %t", status, text, closed)
	}
	if status, text, _ := rawRequest(t, producers[1], post, "x"); status != 201 {
		t.Errorf("one that is connected: got %d %s", status, text)
	}
	producers[0].Close()
	for status := 0; status != 201; { // the server hears of it soon
		if status, text, _ = rawRequest(t, dialRaw(t, addr), post, "x"); status != 201 && status != 503 {
			t.Fatalf("got %d %s", status, text)
		}
	}
}

// Beyond the spare connections, too, nothing waits.
func TestConnectionsBeyondTheSpareAreCut(t *testing.T) {
	addr, stop := start(t, Config{MaxConnections: 1}, memstore.New(memstore.Config{}))
	defer stop()
	var conns []net.Conn
	for range 1 + 32 {
		conns = append(conns, dialRaw(t, addr))
	}
	if _, err := dialRaw(t, addr).Read(make([]byte, 1)); err == nil {
		t.Error("it was answered")
	}
	for _, conn := range conns {
		conn.Close()
	}
	for { // the server hears of it soon
		conn := dialRaw(t, addr)
		io.WriteString(conn, "GET /v1/messages HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode == 200 {
			return
		}
	}
}

// slowBody is a body of which a part has been read when asked is closed.
type slowBody struct {
	part         io.Reader
	asked, going chan struct{}
}

func newSlowBody(part string) *slowBody {
	return &slowBody{strings.NewReader(part), make(chan struct{}), make(chan struct{})}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if n, err := b.part.Read(p); err == nil {
		return n, nil
	}
	close(b.asked)
	<-b.going
	return 0, io.EOF
}

// The bodies of all requests together are bounded until they are answered.
func TestUnansweredBytesAreBounded(t *testing.T) {
	const most = 1 << 20
	listener, err := New(Config{MaxRequestBytes: most, MaxBatchBytes: most, MaxUnansweredBytes: most}, interceptor(memstore.New(memstore.Config{}), "orders"))
	if err != nil {
		t.Fatal(err)
	}
	post := func(path string, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", path, body)
		r.Host = "localhost"
		r.Header.Set("Delaybridge-Delay", "1h")
		w := httptest.NewRecorder()
		listener.Handler().ServeHTTP(w, r)
		return w
	}
	slow := []*slowBody{newSlowBody(strings.Repeat(" ", 500<<10)), newSlowBody(strings.Repeat(" ", 500<<10))}
	answers := make(chan *httptest.ResponseRecorder)
	for _, body := range slow {
		go func() { answers <- post("/v1/messages", body) }()
		<-body.asked
	}
	body := strings.Repeat("x", 100<<10)
	w := post("/v1/publish/orders/t", strings.NewReader(body))
	if w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"busy"`) || !strings.Contains(w.Body.String(), `"stored":false`) || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := post("/v1/publish/orders/t", strings.NewReader("small")); w.Code != 201 {
		t.Errorf("a small one: got %d %s", w.Code, w.Body)
	}
	for _, body := range slow {
		close(body.going)
		<-answers
	}
	if w := post("/v1/publish/orders/t", strings.NewReader(body)); w.Code != 201 {
		t.Errorf("after that: got %d %s", w.Code, w.Body)
	}
	if listener.unanswered.Take(most) == false {
		t.Error("some are counted when all are answered")
	}
}
