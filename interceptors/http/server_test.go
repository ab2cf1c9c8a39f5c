package httplistener

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestNewChecksTheConfiguration(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	expiredCert, expiredKey := servers.Certificate(t, time.Now().Add(-time.Minute))
	tests := map[string]struct {
		config Config
		want   string // part of the error; empty: none
	}{
		"zero value":                {Config{}, ""},
		"loopback":                  {Config{Listen: "127.1.2.3:0"}, ""},
		"loopback, v6":              {Config{Listen: "[::1]:0"}, ""},
		"localhost":                 {Config{Listen: "localhost:0"}, ""},
		"public":                    {Config{Listen: "0.0.0.0:7420"}, "set tokens"},
		"public, no host":           {Config{Listen: ":7420"}, "insecure: true"},
		"public, name":              {Config{Listen: "bridge.example:7420"}, "set tokens"},
		"public, v6":                {Config{Listen: "[::]:7420"}, "set tokens"},
		"looks like loopback":       {Config{Listen: "127.0.0.1.example:7420"}, "set tokens"},
		"public, tokens":            {Config{Listen: ":0", Tokens: []string{goodToken}}, ""},
		"public, insecure":          {Config{Listen: ":0", Insecure: true}, ""},
		"no port":                   {Config{Listen: "localhost"}, "host:port"},
		"short token":               {Config{Tokens: []string{goodToken, "secret"}}, "token 2 is shorter"},
		"empty token":               {Config{Tokens: []string{""}}, "token 1 is shorter"},
		"token with space":          {Config{Tokens: []string{"correct horse battery"}}, "token 1 has characters"},
		"short hash":                {Config{Tokens: []string{"sha256:abcd"}}, "token 1 is not sha256:"},
		"hash of other than digits": {Config{Tokens: []string{"sha256:" + strings.Repeat("x", 64)}}, "token 1 is not sha256:"},
		"certificate":               {Config{TLSCert: cert, TLSKey: key}, ""},
		"certificate without key":   {Config{TLSCert: cert}, "together"},
		"key without certificate":   {Config{TLSKey: key}, "together"},
		"certificate of other key":  {Config{TLSCert: cert, TLSKey: expiredKey}, "load tls_cert"},
		"certificate not there":     {Config{TLSCert: cert + "x", TLSKey: key}, "load tls_cert"},
		"certificate expired":       {Config{TLSCert: expiredCert, TLSKey: expiredKey}, "expired"},
		"negative timeout":          {Config{ReadTimeout: -1}, "read_timeout"},
		"negative batch":            {Config{MaxBatch: -1}, "max_batch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.config, interceptor(memstore.New(memstore.Config{}), "orders"))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("a token is in the error: %v", err)
			}
		})
	}
}

// start runs a server on a free port and returns its address, and what stops
// it and waits.
func start(t *testing.T, config Config, store core.Store) (addr string, stop func() error) {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	listener, err := New(config, interceptor(store, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := listener.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(ctx) }()
	t.Cleanup(cancel)
	return bound.String(), func() error { cancel(); return <-ended }
}

// slow is a store that parks when it is told to.
type slow struct {
	core.Store
	begun, goOn chan struct{}
}

func (s *slow) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	close(s.begun)
	select {
	case <-s.goOn:
	case <-ctx.Done():
		return []core.Receipt{{ID: messages[0].ID, Sink: messages[0].Sink, Err: core.ErrUnknown}}
	}
	return s.Store.Park(ctx, messages...)
}

func TestRunDrains(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	store := &slow{memstore.New(memstore.Config{}), make(chan struct{}), make(chan struct{})}
	addr, stop := start(t, Config{}, store)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	answered := make(chan int, 1)
	go func() {
		response, err := client.Post("http://"+addr+"/v1/messages", "application/json", strings.NewReader(`{"topic":"t","delay":"1h"}`))
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	<-store.begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	awaitRefusal(t, addr)
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the request was answered: %v", err)
	default:
	}
	close(store.goOn)
	if status := <-answered; status != 201 {
		t.Errorf("the request under way got %d", status)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// awaitRefusal waits until no new connections are taken.
func awaitRefusal(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("new connections are still taken")
}

func TestRunCutsOffWhatOutlivesStopTimeout(t *testing.T) {
	store := &slow{memstore.New(memstore.Config{}), make(chan struct{}), make(chan struct{})}
	addr, stop := start(t, Config{StopTimeout: 50 * time.Millisecond}, store)
	go http.Post("http://"+addr+"/v1/messages", "application/json", strings.NewReader(`{"topic":"t","delay":"1h"}`))
	<-store.begun
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	addr, stop := start(t, Config{}, memstore.New(memstore.Config{}))
	second, err := New(Config{Listen: addr}, interceptor(memstore.New(memstore.Config{}), "orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHealth(t *testing.T) {
	f := newFixture(t, Config{Insecure: true})
	if a := f.do("GET", "/readyz", ""); a.status != 200 || a.json["ready"] != true || a.json["insecure"] != true || a.json["durability"] == nil {
		t.Errorf("got %d %s", a.status, a.text)
	}
	down := newFailing(t, &failing{err: errors.New("redis is loading")})
	if a := down.do("GET", "/readyz", ""); a.status != 503 || a.json["ready"] != false || a.json["reason"] != "redis is loading" || a.json["insecure"] != nil {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := down.do("GET", "/livez", ""); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// Why the bridge is not ready can name servers: strangers are not told, and the log is.
func TestReadyTellsStrangersNoReason(t *testing.T) {
	store := &failing{err: errors.New("dial tcp 10.0.0.7:6379: connection refused")}
	secret := func(f *fixture, want bool, headers ...string) {
		t.Helper()
		a := f.do("GET", "/readyz", "", headers...)
		if told := strings.Contains(a.text, "10.0.0.7"); a.status != 503 || a.json["ready"] != false || told != want {
			t.Errorf("%v: got %d %s", headers, a.status, a.text)
		}
	}
	var log bytes.Buffer
	f := &fixture{T: t, store: &spy{Store: store}}
	f.serve(Config{Tokens: []string{goodToken}, Log: slog.New(slog.NewTextHandler(&log, nil))}, store)
	secret(f, false)
	secret(f, false, bearer("another-token-that-is-long"))
	secret(f, true, bearer(goodToken))
	if strings.Count(log.String(), "10.0.0.7") != 1 {
		t.Errorf("the log:\n%s", log.String())
	}
	f = newFailing(t, store)
	secret(f, true)
	secret(f, false, "Sec-Fetch-Site: cross-site")
	if a := f.raw("GET /readyz HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n"); a.status != 503 || strings.Contains(a.text, "10.0.0.7") {
		t.Errorf("by another name: got %d %s", a.status, a.text)
	}
	f = &fixture{T: t, store: &spy{Store: store}}
	f.serve(Config{Insecure: true, Listen: "0.0.0.0:0"}, store)
	secret(f, false)
}

func TestProblemPages(t *testing.T) {
	f := newFixture(t, Config{})
	for name := range codes {
		a := f.do("GET", "/problems/"+name, "")
		if a.status != 200 || !strings.HasPrefix(a.text, name) || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d %s", name, a.status, a.text)
		}
	}
	f.refused(f.do("GET", "/problems/none", ""), 404, "no_such_route")
}

func TestSlowClients(t *testing.T) {
	f := newFixture(t, Config{ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 3 * time.Second})
	t.Run("heads that do not end", func(t *testing.T) {
		var conns []net.Conn
		for range 200 {
			conn := f.dial()
			if _, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX: "); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		if a := f.do("GET", "/livez", ""); a.status != 200 { // healthy besides
			t.Errorf("got %d", a.status)
		}
		for _, conn := range conns {
			if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("a connection is still open")
			}
		}
	})
	t.Run("bodies that do not end", func(t *testing.T) {
		conn := f.dial()
		if _, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 408 ")) || !bytes.Contains(text, []byte(`"stored":false`)) {
			t.Errorf("got %s, %v", text, err)
		}
	})
	t.Run("continue and silence", func(t *testing.T) {
		conn := f.dial()
		if _, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 100 Continue")) || !bytes.Contains(text, []byte("HTTP/1.1 408 ")) {
			t.Errorf("got %s, %v", text, err)
		}
	})
	t.Run("continue is not asked for in vain", func(t *testing.T) {
		conn := f.dial()
		if _, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 413 ") {
			t.Errorf("got %s, %v", line, err)
		}
	})
	if len(f.store.parked) != 0 {
		t.Errorf("%d messages stored", len(f.store.parked))
	}
}
