//go:build unix

package main

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const line = `{"time":"2026-01-02T03:04:05.100Z","id":"m","sink":"out","topic":"orders","key":"k","headers":[{"name":"name","value":"m"},` +
	`{"name":"x-trace","value":"ü"},{"name":"delaybridge-id","value":"m"}],"body":"b","priority":0,"deliver_at":"2026-01-02T03:04:05.000Z","attempt":2}` + "\n"

// TestTailer: a line counts when its end is written, since a crash may cut it off.
func TestTailer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	tail := &tailer{reader: bufio.NewReader(in), writer: "bridge a1", note: func(line []byte) error { return l.notePrinted(line, "a1") }}
	for n, part := range []string{line[:40], line[40:] + line[:90], line[90:]} {
		if _, err := out.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if err := tail.drain(); err != nil {
			t.Fatal(err)
		}
		if len(l.entries) != n {
			t.Fatalf("%d arrivals after %d parts", len(l.entries), n+1)
		}
	}
	name, key, trace := "m", "k", "ü"
	sent := message{Topic: "orders", Key: &key, Headers: []header{{headerName, &name}, {"x-trace", &trace}}, Body: "b"}
	got := l.entries[0]
	if got.Name != "m" || got.ID != "m" || got.Attempt != 2 || got.Bridge != "a1" || got.Content != sent.content() {
		t.Errorf("got %+v, content sent %s", got, sent.content())
	}
	if sent.Body = "c"; got.Content == sent.content() {
		t.Error("another body has the same content")
	}
	if _, err := out.WriteString("what is this\n"); err != nil {
		t.Fatal(err)
	}
	if err := tail.drain(); err == nil || !strings.Contains(err.Error(), "what is this") {
		t.Errorf("error %v", err)
	}
}

// TestProxyLosesReplies: the request is through, and the answer is not.
func TestProxyLosesReplies(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	asked := make(chan string, 2)
	go func() {
		for {
			conn, err := upstream.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4)
			if _, err := io.ReadFull(conn, b); err == nil {
				asked <- string(b)
				_, _ = conn.Write([]byte("pong")) // the other end may be gone
			}
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, upstream: upstream.Addr().String(), dice: rand.New(rand.NewPCG(1, 1)), open: map[net.Conn]bool{}}
	p.group.Go(p.serve)
	defer p.close()
	for _, test := range []struct {
		share float64
		want  string
	}{{0, "pong"}, {1, ""}} {
		p.lose(test.share)
		conn, err := net.Dial("tcp", p.addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4)
		n, _ := io.ReadFull(conn, answer) // its end is what is tested
		conn.Close()
		if got := string(answer[:n]); got != test.want || <-asked != "ping" {
			t.Errorf("share %g: answer %q, want %q", test.share, got, test.want)
		}
	}
	if p.lostSoFar() != 1 {
		t.Errorf("%d replies lost", p.lostSoFar())
	}
}
