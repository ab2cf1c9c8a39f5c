package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// started is a process whose output is read line by line.
type started struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	seen  strings.Builder
}

// start runs a command and reads what it writes to the stream that pipe opens.
func start(t *testing.T, cmd *exec.Cmd, pipe func() (io.ReadCloser, error)) *started {
	t.Helper()
	out, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	return &started{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
}

// await reads until a line matches and returns what the first group matched.
func (s *started) await(pattern string) string {
	s.t.Helper()
	expr := regexp.MustCompile(pattern)
	for s.lines.Scan() {
		s.seen.WriteString(s.lines.Text() + "\n")
		if m := expr.FindStringSubmatch(s.lines.Text()); m != nil {
			return m[len(m)-1]
		}
	}
	s.t.Fatalf("no line matches %q in:\n%s", pattern, &s.seen)
	return ""
}

// end reads the rest and returns the exit code.
func (s *started) end() int {
	s.t.Helper()
	for s.lines.Scan() {
		s.seen.WriteString(s.lines.Text() + "\n")
	}
	err := s.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	return 0
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func startDevProcess(t *testing.T, args ...string) *started {
	t.Helper()
	cmd := command(t, append([]string{"dev"}, args...)...)
	cmd.Stderr = t.Output()
	return start(t, cmd, cmd.StdoutPipe)
}

// aWhile is so long that the first sample, which is due after two seconds, is
// delivered also where the machine stands still for some, and that the last, due
// after ten, is mostly not.
const aWhile = "7s"

func TestDevForAWhile(t *testing.T) {
	t.Parallel()
	dev := startDevProcess(t, "--listen", "127.0.0.1:0", "--for", aWhile)
	dev.await(`^delaybridge \S+, .*not for production$`)
	dev.await(`^  store  in memory, lost at exit$`)
	dev.await(`^  sink   console`)
	url := dev.await(`^  http   (http://127\.0\.0\.1:\d+)$`)
	dev.await(`curl .*` + regexp.QuoteMeta(url) + `/v1/messages$`)
	dev.await(`samples  "sample 1, sent 2s ago"  late \+[0-9.]+ms$`)
	if code := dev.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	dev.wantTotals("", true)
	for _, want := range []string{"lateness p50 ", ", p99 "} {
		if !strings.Contains(dev.seen.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &dev.seen)
		}
	}
}

// wantTotals checks what dev has said at its end of the three samples: some were
// delivered, and the others are told to be lost, if they are.
func (s *started) wantTotals(name string, lost bool) {
	s.t.Helper()
	out := s.seen.String()
	m := regexp.MustCompile(`(?m)^` + name + `accepted 3, delivered ([123]), retried 0, dead 0$`).FindStringSubmatch(out)
	if m == nil {
		s.t.Fatalf("the totals are wrong:\n%s", out)
	}
	says := ""
	if left := '3' - m[1][0]; lost && left > 0 {
		says = fmt.Sprintf("%d still parked, and lost now", left)
	}
	if got := regexp.MustCompile(`(?m)^.*lost now$`).FindString(out); got != says {
		s.t.Errorf("says that %q, want %q:\n%s", got, says, out)
	}
}

// TestDevCurlLine sends what the banner says, byte for byte.
func TestDevCurlLine(t *testing.T) {
	t.Parallel()
	dev := startDevProcess(t, "--listen", "127.0.0.1:0", "--no-samples")
	line := dev.await(`^  curl -H 'Content-Type: application/json' -d '(.*)$`)
	body, url, ok := strings.Cut(line, "' ")
	if !ok {
		t.Fatalf("not understood: %s", line)
	}
	response, err := http.Post(url, "application/json", strings.NewReader(strings.Replace(body, "10s", "100ms", 1)))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Errorf("answered %s", response.Status)
	}
	dev.await(`hello  "hi"  late \+`)
	dev.signal(syscall.SIGINT)
	if code := dev.end(); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	if !strings.Contains(dev.seen.String(), "accepted 1, delivered 1,") {
		t.Errorf("no totals:\n%s", &dev.seen)
	}
}

// TestBusyPort: asked for, a busy port is an error; otherwise the next is taken.
func TestBusyPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"dev", "--listen", taken.Addr().String()}, strings.NewReader(""), io.Discard, &stderr)
	if code != exitUnreachable || !strings.Contains(stderr.String(), taken.Addr().String()) || !strings.Contains(stderr.String(), "in use") {
		t.Errorf("code %d, %s", code, &stderr)
	}
	if standard, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", devPort)); err == nil {
		defer standard.Close()
	}
	dev := startDevProcess(t, "--no-samples")
	port := dev.await(`^  http   http://127\.0\.0\.1:(\d+)$`)
	dev.await(`port 7420 is taken, so this is on ` + port)
	dev.signal(syscall.SIGTERM)
	if code := dev.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestSecondSignal is C16: a drain that takes long is cut short.
func TestSecondSignal(t *testing.T) {
	var stderr bytes.Buffer
	cmd := command(t, "dev", "--listen", "127.0.0.1:0", "--no-samples")
	cmd.Stderr = &stderr
	dev := start(t, cmd, cmd.StdoutPipe)
	addr := dev.await(`^  http   http://(.*)$`)
	dev.await(`Ctrl-C`)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A request whose body does not come holds up the drain.
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", addr)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("answered %q, %v", line, err)
	}
	dev.signal(syscall.SIGTERM)
	// The first has been seen when no one can connect any more.
	poll.Until(t, time.Minute, "no one can connect", func() bool {
		probe, err := net.Dial("tcp", addr)
		if err == nil {
			probe.Close()
		}
		return err != nil
	})
	dev.signal(syscall.SIGTERM)
	if code := dev.end(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	// Else the drain has ended by itself, after its ten seconds.
	if !strings.Contains(stderr.String(), errForced.Error()) {
		t.Errorf("was not ended by the second signal: %s", &stderr)
	}
}

// TestClosedOutput is C16: nobody reads any more.
func TestClosedOutput(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"dev", "--listen", "127.0.0.1:0", "--for", "100ms"}} {
		t.Run(args[0], func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			var stderr bytes.Buffer
			cmd := command(t, args...)
			cmd.Stdout, cmd.Stderr = w, &stderr
			err = cmd.Run()
			w.Close()
			if strings.Contains(stderr.String(), "panic") || strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("%v: %s", err, &stderr)
			}
		})
	}
}

// TestInterruptedClient: Ctrl-C ends a client command that waits for an answer.
func TestInterruptedClient(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cmd := command(t, "stats", "--url", "http://"+silent.Addr().String())
	stats := start(t, cmd, cmd.StderrPipe)
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stats.signal(syscall.SIGINT)
	if code := stats.end(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}

// TestServe runs serve on a real Redis: a message goes in, the bridge is stopped
// and started, and the message comes out.
func TestServe(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("log: {format: json}\nstore: {redis: {url: %q}}\nhttp: {listen: \"127.0.0.1:0\", tokens: [\"${TOKEN}\"]}\nsinks: {out: {type: console, config: {format: json}}}\n", redis.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "correct-horse-battery-staple"
	serve := func() (*started, string, *bytes.Buffer) {
		cmd := command(t, "serve", "--config", path)
		cmd.Env = append(cmd.Env, "TOKEN="+token)
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		s := start(t, cmd, cmd.StderrPipe)
		return s, "http://" + s.await(`"msg":"ready".*"http":"([^"]+)"`), &stdout
	}
	client := func(url, token string, args ...string) int {
		cmd := command(t, args...)
		cmd.Env = append(cmd.Env, envURL+"="+url, envToken+"="+token)
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "staple") {
			t.Errorf("the token shows: %s", out)
		}
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode()
	}

	first, url, _ := serve()
	send := []string{"send", "--topic", "t", "--id", "x", "--delay", "1h", "--body", "hi"}
	if code := client(url, "", send...); code != exitDenied {
		t.Errorf("without a token: code %d, want %d", code, exitDenied)
	}
	if code := client(url, "wrong-staple-wrong-staple", send...); code != exitDenied {
		t.Errorf("with a wrong token: code %d, want %d", code, exitDenied)
	}
	if code := client(url, token, send...); code != exitOK {
		t.Fatalf("with the token: code %d", code)
	}
	first.signal(syscall.SIGTERM)
	if code := first.end(); code != exitOK {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, &first.seen)
	}

	second, url, out := serve()
	if code := client(url, token, "deliver-now", "x"); code != exitOK {
		t.Fatalf("deliver-now: code %d", code)
	}
	poll.Until(t, time.Minute, "it is delivered", func() bool { return delivered(t, url, token) })
	second.signal(syscall.SIGTERM)
	if code := second.end(); code != exitOK {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, &second.seen)
	}
	if got := strings.Count(out.String(), "\n"); got != 1 || !strings.Contains(out.String(), `"x"`) {
		t.Errorf("%d lines came out, want one message:\n%s\nthe log:\n%s", got, out, &second.seen)
	}
	for _, log := range []string{first.seen.String(), second.seen.String()} {
		if strings.Contains(log, token) {
			t.Errorf("the token is in the log:\n%s", log)
		}
	}
}

// TestDevOnRedis parks in a real Redis, where what is left stays.
func TestDevOnRedis(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFOff})
	dev := startDevProcess(t, "--listen", "127.0.0.1:0", "--redis", redis.URL(), "--for", aWhile)
	dev.await(`^  store  Redis, durability memory$`)
	dev.await(`samples  "sample 1, sent 2s ago"  late \+`)
	if code := dev.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	dev.wantTotals("", false)
}

func delivered(t *testing.T, url, token string) bool {
	t.Helper()
	cmd := command(t, "get", "x")
	cmd.Env = append(cmd.Env, envURL+"="+url, envToken+"="+token)
	out, _ := cmd.Output()
	return strings.Contains(string(out), "delivered")
}
