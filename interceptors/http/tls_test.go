package httplistener

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestTLS(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	addr, stop := start(t, Config{TLSCert: cert, TLSKey: key}, memstore.New(memstore.Config{}))
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	response, err := client.Post("https://"+addr+"/v1/messages", "application/json", strings.NewReader(`{"topic":"t","delay":"1h"}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 201 || response.ProtoMajor != 2 {
		t.Errorf("got %s over %s", response.Status, response.Proto)
	}
	if conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was taken")
	}
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A certificate that is replaced is shown to the next connection; the open ones go on.
func TestCertificateIsExchanged(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	first, err := New(Config{Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: key}, interceptor(memstore.New(memstore.Config{})))
	if err != nil {
		t.Fatal(err)
	}
	addr, err := first.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	shown := func() (*tls.Conn, []byte) {
		conn, err := tls.Dial("tcp", addr.String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		return conn, conn.ConnectionState().PeerCertificates[0].Raw
	}
	open, before := shown()
	defer open.Close()
	otherCert, otherKey := servers.Certificate(t, time.Now().Add(2*time.Hour))
	next, err := New(Config{TLSCert: otherCert, TLSKey: otherKey}, interceptor(memstore.New(memstore.Config{})))
	if err != nil {
		t.Fatal(err)
	}
	first.Adopt(next)
	renewed, after := shown()
	renewed.Close()
	if bytes.Equal(before, after) {
		t.Error("the new connection was shown the old certificate")
	}
	if _, err := open.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(open); err != nil || !strings.Contains(string(answer), "200 OK") {
		t.Errorf("the open connection: %q, %v", answer, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// stuck is a store whose Stats does not return until it is told to, whatever
// its context says.
type stuck struct {
	core.Store
	goOn chan struct{}
	asks atomic.Int32
}

func (s *stuck) List(context.Context, core.Query) (core.Page, error) { return core.Page{}, nil }

func (s *stuck) Stats(context.Context, ...string) ([]core.SinkStats, error) {
	s.asks.Add(1)
	<-s.goOn
	return nil, nil
}

func (s *stuck) Timeline(context.Context, core.TimelineQuery) (core.Timeline, error) {
	return core.Timeline{}, nil
}

// HTTP/2 streams that are begun and reset at once, while their handlers are
// still at work, end the connection, not the server.
func TestRapidReset(t *testing.T) {
	store := &stuck{Store: memstore.New(memstore.Config{}), goOn: make(chan struct{})}
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	addr, stop := start(t, Config{TLSCert: cert, TLSKey: key, Log: slog.New(slog.DiscardHandler)}, store)
	attacker, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	goneAway := make(chan bool, 1)
	go func() { goneAway <- awaitGoAway(attacker) }()
	go sendResets(attacker, 10_000)
	select {
	case gone := <-goneAway:
		if !gone {
			t.Error("the connection ended without GOAWAY")
		}
	case <-time.After(20 * time.Second):
		t.Error("the connection goes on")
	}
	attacker.Close()
	if most := store.asks.Load(); most == 0 || most > 250 {
		t.Errorf("%d handlers were at work at once", most)
	}
	close(store.goOn)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	response, err := client.Get("https://" + addr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// sendResets begins n streams and resets each. Errors are what is hoped for.
func sendResets(conn io.Writer, n int) {
	w := bufio.NewWriter(conn)
	io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // preface, empty SETTINGS
	// GET https://localhost/v1/stats in HPACK.
	head := append([]byte{0x82, 0x87, 0x04, 9}, "/v1/stats\x41\x09localhost"...)
	for i := range n {
		stream := 2*i + 1
		id := []byte{byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}
		w.Write(append([]byte{0, 0, byte(len(head)), 1, 5}, id...)) // HEADERS, END_STREAM | END_HEADERS
		w.Write(head)
		w.Write(append([]byte{0, 0, 4, 3, 0}, id...)) // RST_STREAM
		w.Write([]byte{0, 0, 0, 8})                   // CANCEL
		if w.Flush() != nil {
			return
		}
	}
}

// awaitGoAway reads frames until GOAWAY; false if there is none.
func awaitGoAway(conn io.Reader) bool {
	r := bufio.NewReader(conn)
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return false
		}
		if head[3] == 7 {
			return true
		}
		if _, err := r.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2])); err != nil {
			return false
		}
	}
}
