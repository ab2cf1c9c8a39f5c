//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestRunStartsAndEnds(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"redis"}, write)
		write.Close()
	}()
	text := readUntil(t, read, "Ctrl-C")
	addr := redisAddr(t, text)
	if !answers(addr) {
		t.Errorf("no server at %s", addr)
	}
	file := regexp.MustCompile(`--config (\S+)`).FindStringSubmatch(text)[1]
	if saved, err := os.ReadFile(file); err != nil || !strings.Contains(text, string(saved)) {
		t.Errorf("%s does not hold what was printed: %v", file, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if answers(addr) {
		t.Errorf("a server is still at %s", addr)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", file, err)
	}
}

func TestRunRefusesWhatItDoesNotKnow(t *testing.T) {
	err := run(t.Context(), []string{"redos"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"redos"`) {
		t.Errorf("error %v", err)
	}
}

func readUntil(t *testing.T, r io.Reader, mark string) string {
	t.Helper()
	var text strings.Builder
	for b := make([]byte, 1024); !strings.Contains(text.String(), mark); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, text.String())
		}
		text.Write(b[:n])
	}
	return text.String()
}

func redisAddr(t *testing.T, text string) string {
	t.Helper()
	match := regexp.MustCompile(`url: "(redis://[^"]+)"`).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no Redis in %s", text)
	}
	u, err := url.Parse(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func answers(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
