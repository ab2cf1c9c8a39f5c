package httplistener

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/internal/events"
)

// withEvents is a server whose events are those of its own interceptor.
func withEvents(t *testing.T, config Config) (*Server, *core.Bridge) {
	t.Helper()
	config.Events, config.Listen = events.New("here"), "127.0.0.1:0"
	b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{Observer: config.Events.Observer()}, &core.Dispatcher{Name: "orders"})
	s, err := New(config, b.For("http"))
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// runServer returns the address, and what ends the server and waits.
func runServer(t *testing.T, s *Server) (addr string, stop func() error) {
	t.Helper()
	bound, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(cancel)
	return bound.String(), func() error { cancel(); return <-ended }
}

// openStream returns the lines that a stream has after its first one.
func openStream(t *testing.T, client *http.Client, url string) *bufio.Scanner {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %s %v", response.Status, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 64<<20)
	if nextLine(lines) != ": what happens from now on" {
		t.Fatalf("begins with %q", lines.Text())
	}
	return lines
}

func nextLine(lines *bufio.Scanner) string {
	for lines.Scan() {
		if lines.Text() != "" {
			return lines.Text()
		}
	}
	return ""
}

// TestEventStream: a stream outlives the bounds of requests, and ends with the server.
func TestEventStream(t *testing.T) {
	for name, protocol := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			const bound = 100 * time.Millisecond
			config := Config{ReadHeaderTimeout: bound, ReadTimeout: bound, WriteTimeout: bound, StopTimeout: time.Minute}
			client, scheme := &http.Client{}, "http"
			if protocol == 2 {
				config.TLSCert, config.TLSKey = servers.Certificate(t, time.Now().Add(time.Hour))
				client.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				scheme = "https"
			}
			s, b := withEvents(t, config)
			addr, stop := runServer(t, s)
			defer client.CloseIdleConnections()
			stream := openStream(t, client, scheme+"://"+addr+"/v1/events?sink=orders&event=accepted")
			time.Sleep(3 * bound) // the server's own bounds are over
			for n := range 3 {
				b.For("http").Accept(t.Context(), &core.Message{ID: fmt.Sprint(n), Topic: "t", Delay: time.Hour})
				if got := nextLine(stream); got != "event: accepted" {
					t.Fatalf("got %q, %v", got, stream.Err())
				}
				data := strings.TrimPrefix(nextLine(stream), "data: ")
				if want := fmt.Sprintf(`"sink":"orders","topic":"t","id":"%d"`, n); !strings.Contains(data, want) {
					t.Errorf("got %s, want %s", data, want)
				}
				if err := (&witness{document: strictDocument(t)}).fits("Event", []byte(data)); err != nil {
					t.Errorf("%s: %v", data, err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- stop() }()
			if got := nextLine(stream) + nextLine(stream); got != `event: enddata: {"reason":"stopping"}` {
				t.Errorf("ends with %q", got)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSlowReaderIsCutOff: nobody waits for a reader who does not read, and it is told
// how many events it has missed.
func TestSlowReaderIsCutOff(t *testing.T) {
	s, b := withEvents(t, Config{})
	addr, stop := runServer(t, s)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/events?bodies=true HTTP/1.0\r\nHost: localhost\r\n\r\n")
	reader := bufio.NewReader(conn)
	poll.Until(t, time.Minute, "the stream is open", func() bool {
		line, err := reader.ReadString('\n')
		return err != nil || strings.HasPrefix(line, ": what")
	})
	body := []byte(strings.Repeat("b", 200<<10))
	poll.Until(t, time.Minute, "events are dropped", func() bool {
		b.Accept(t.Context(), &core.Message{Topic: "t", Delay: time.Hour, Body: body})
		return s.config.Events.Counts().CutOff > 0
	})
	text, err := io.ReadAll(reader)
	if _, end, _ := strings.Cut(string(text), "event: end\n"); err != nil || !strings.HasPrefix(end, `data: {"reason":"slow","dropped":`) {
		t.Errorf("%v; it ends with %q", err, end)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestReaderWhoLeaves makes room for others.
func TestReaderWhoLeaves(t *testing.T) {
	s, _ := withEvents(t, Config{})
	addr, stop := runServer(t, s)
	read := func(ctx context.Context) int {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response.StatusCode
	}
	leaving, leave := context.WithCancel(t.Context())
	for range events.MaxReaders {
		if got := read(leaving); got != 200 {
			t.Fatalf("status %d", got)
		}
	}
	if got := read(t.Context()); got != 503 {
		t.Errorf("one more: %d", got)
	}
	leave()
	poll.Until(t, time.Minute, "there is room again", func() bool { return read(t.Context()) == 200 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}
