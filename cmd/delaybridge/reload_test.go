//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// served is a process of serve with files that the test changes.
type served struct {
	t     *testing.T
	dir   string
	token string
	http  *http.Client
	*servers.Bridge
	url     string
	printed journal.Journal // by console sinks
}

const (
	firstToken  = "first-token-of-this-test"
	secondToken = "second-token-of-this-test"
)

// serveFiles runs serve on the file c.yaml of files, in which DIR is their folder.
func serveFiles(t *testing.T, files map[string]string, args ...string) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir(), token: firstToken, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	for name, text := range files {
		s.write(name, text)
	}
	cmd := command(t, append([]string{"serve", "--config", s.file("c.yaml")}, args...)...)
	cmd.Stdout = &s.printed
	var err error
	if s.Bridge, err = servers.StartBridge(cmd, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if s.url = s.Ready(time.Minute); s.url == "" {
		t.Fatal("it is not ready")
	}
	return s
}

func (s *served) file(name string) string { return filepath.Join(s.dir, name) }

func (s *served) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), []byte(strings.ReplaceAll(text, "DIR", s.dir)), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// edit changes texts of c.yaml, each of which must be there.
func (s *served) edit(fromTo ...string) {
	s.t.Helper()
	text, err := os.ReadFile(s.file("c.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	for n := 0; n < len(fromTo); n += 2 {
		if !bytes.Contains(text, []byte(fromTo[n])) {
			s.t.Fatalf("no %q in:\n%s", fromTo[n], text)
		}
		text = bytes.Replace(text, []byte(fromTo[n]), []byte(fromTo[n+1]), 1)
	}
	s.write("c.yaml", string(text))
}

func (s *served) ask(method, path, body string) (status int, answer map[string]any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	response, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &answer) // else there is none
	return response.StatusCode, answer
}

// cli runs a client command against the process.
func (s *served) cli(want int, args ...string) string {
	s.t.Helper()
	cmd := command(s.t, args...)
	cmd.Env = append(cmd.Env, envURL+"="+s.url, envToken+"="+s.token)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		s.t.Errorf("%v: code %d, want %d:\n%s", args, code, want, out)
	}
	if strings.Contains(string(out), "-token-of-") {
		s.t.Errorf("%v shows a token:\n%s", args, out)
	}
	return string(out)
}

func (s *served) awaitLog(text string) {
	s.t.Helper()
	poll.Until(s.t, time.Minute, "the log has "+text, func() bool { return strings.Contains(s.Logs.String(), text) })
}

// effects is what can be seen of the configuration that is in effect.
func (s *served) effects() string {
	s.t.Helper()
	status, stats := s.ask("GET", "/v1/stats", "")
	var sinks []string
	if all, ok := stats["sinks"].([]any); ok {
		for _, one := range all {
			sinks = append(sinks, one.(map[string]any)["sink"].(string))
		}
	}
	large, _ := s.ask("POST", "/v1/messages", `{"sink":"out","topic":"t","delay":"1h","body":"`+strings.Repeat("x", 1000)+`"}`)
	return fmt.Sprintf("status %d, sinks %v, large %d, debug %t", status, sinks, large, strings.Contains(s.Logs.String(), "level=DEBUG"))
}

// hash is that of the configuration, as other instances see it.
func (s *served) hash() string {
	s.t.Helper()
	_, answer := s.ask("GET", "/v1/instances", "")
	all, _ := answer["instances"].([]any)
	if len(all) != 1 {
		s.t.Fatalf("got %v", answer)
	}
	hash, _ := all[0].(map[string]any)["config"].(string)
	return hash
}

const reloadConfig = `log: {level: info}
store: {redis: {url: "%s"}, lease: 5s}
http: {listen: "127.0.0.1:0", tokens_file: DIR/tokens}
limits: {max_body: 10KiB}
retry: {initial: 1s}
sinks:
  out: {type: console}
  other: {type: console}
`

// What a reload can change is changed, and nothing else of a file with a fault.
func TestReload(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	s := serveFiles(t, map[string]string{"c.yaml": fmt.Sprintf(reloadConfig, redis.URL()), "tokens": firstToken + "\n"})
	before := "status 200, sinks [out other], large 201, debug false"
	if got := s.effects(); got != before {
		t.Fatalf("got %s", got)
	}
	hash := s.hash()
	s.edit("limits:", "# Another text.\nlimits:")
	if out := s.cli(exitOK, "reload"); !strings.Contains(out, "nothing has changed") {
		t.Errorf("got %s", out)
	}
	sameButText := s.hash()
	if sameButText == hash {
		t.Error("the hash is that of the file before")
	}

	// One fault, and all else is as before.
	s.write("tokens", secondToken)
	s.edit("level: info", "level: debug", "10KiB", "500B", "  other: {type: console}", "  third: {type: console, config: {format: xml}}")
	if out := s.cli(exitConfig, "reload"); !strings.Contains(out, "c.yaml:9:43: error: sinks.third.config.format: must be human or json") || strings.Count(out, "error: ") != 1 {
		t.Errorf("got %s", out)
	}
	s.Cmd.Process.Signal(syscall.SIGHUP)
	poll.Until(t, time.Minute, "the reload by the signal fails", func() bool { return strings.Count(s.Logs.String(), "reload failed") == 2 })
	if got := s.effects(); got != before || s.hash() != sameButText {
		t.Errorf("after a fault: %s", got)
	}
	if out := s.cli(exitOK, "health"); !strings.Contains(out, "configuration  last reload failed: ") {
		t.Errorf("got %s", out)
	}

	// The same without the fault.
	s.ask("POST", "/v1/messages", `{"sink":"other","topic":"t","delay":"1h"}`)
	s.edit("xml", "json")
	out := s.cli(exitOK, "reload", "--dry-run")
	for _, want := range []string{"log.level", "limits.max_body", "http.tokens[0]", "sinks.other", "sinks.third", "parked for other  1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if got := s.effects(); got != before || s.hash() != sameButText {
		t.Errorf("after a dry run: %s", got)
	}
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.awaitLog(`msg="configuration reloaded" generation=2`)
	s.awaitLog(`msg="sink removed, its messages stay parked until it is back" sink=other messages=1`)
	if status, _ := s.ask("GET", "/v1/stats", ""); status != 401 {
		t.Errorf("with the old token: %d", status)
	}
	s.token = secondToken
	s.awaitLog("level=DEBUG")
	if got := s.effects(); got != "status 200, sinks [out third], large 413, debug true" || s.hash() == sameButText {
		t.Errorf("after a reload: %s", got)
	}
	if status, health := s.ask("GET", "/readyz", ""); status != 200 || health["configuration"] != nil {
		t.Errorf("got %d %v", status, health)
	}
	if strings.Contains(s.Logs.String(), "-token-of-") {
		t.Error("the log has a token")
	}
	if err := s.Stop(time.Minute); err != nil {
		t.Error(err)
	}
}

// What can't be changed is refused by its name, and nothing of the file is applied.
func TestReloadRefusedByName(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	config := fmt.Sprintf(reloadConfig, redis.URL())
	s := serveFiles(t, map[string]string{"c.yaml": config, "tokens": firstToken})
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	for name, edit := range map[string][2]string{
		"store.redis.url":      {redis.URL(), "redis://127.0.0.1:1"},
		"store.redis.prefix":   {"}, lease", ", prefix: x}, lease"},
		"store.redis.buckets":  {"}, lease", ", buckets: 8}, lease"},
		"store.lease":          {"lease: 5s", "lease: 6s"},
		"store.guard":          {"lease: 5s", "lease: 5s, guard: 6s"},
		"store.durability":     {"lease: 5s", "lease: 5s, durability: memory"},
		"http.listen":          {"127.0.0.1:0", "127.0.0.1:1"},
		"http.insecure":        {"tokens_file", "insecure: true, tokens_file"},
		"http.tls_cert":        {"tokens_file", fmt.Sprintf("tls_cert: %q, tls_key: %q, tokens_file", cert, key)},
		"http.max_connections": {"tokens_file", "max_connections: 7, tokens_file"},
		"grpc.listen":          {"limits:", "grpc: {listen: \"127.0.0.1:0\"}\nlimits:"},
		"limits.max_batch":     {"10KiB", "10KiB, max_batch: 7"},
		"log.format":           {"level: info", "level: info, format: json"},
		"events.sink":          {"limits:", "events: {sink: out}\nlimits:"},
		"metrics.enabled":      {"limits:", "metrics: {enabled: false}\nlimits:"},
		"shutdown.timeout":     {"limits:", "shutdown: {timeout: 7s}\nlimits:"},
	} {
		s.write("c.yaml", config)
		s.edit(edit[0], edit[1], "  other: {type: console}\n", "")
		status, answer := s.ask("POST", "/v1/reload", "")
		if detail, _ := answer["detail"].(string); status != 422 || !strings.Contains(detail, "error: "+name+": can't be changed while the bridge runs") {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if got := s.effects(); got != "status 200, sinks [out other], large 201, debug false" {
		t.Errorf("after all: %s", got)
	}
}

// With --watch, files that change have the bridge reload: here certificates and tokens, as
// Kubernetes replaces them, by a link.
func TestReloadByWatching(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	cert, _ := servers.Certificate(t, time.Now().Add(time.Hour))
	link := filepath.Join(t.TempDir(), "data")
	if err := os.Symlink(filepath.Dir(cert), link); err != nil {
		t.Fatal(err)
	}
	s := serveFiles(t, map[string]string{"tokens": firstToken, "c.yaml": fmt.Sprintf(`store: {redis: {url: %q}}
http: {listen: "127.0.0.1:0", tokens_file: DIR/tokens, tls_cert: %s/cert.pem, tls_key: %s/key.pem}
sinks: {out: {type: console}}
`, redis.URL(), link, link)}, "--watch")
	s.url = strings.Replace(s.url, "http:", "https:", 1)
	shown := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return string(conn.ConnectionState().PeerCertificates[0].Raw)
	}
	before := shown()
	otherCert, _ := servers.Certificate(t, time.Now().Add(time.Hour))
	if err := os.Symlink(filepath.Dir(otherCert), link+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"2", link); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "the new certificate is shown", func() bool { return shown() != before })
	s.write("tokens", secondToken)
	s.token = secondToken
	poll.Until(t, time.Minute, "the new token is taken", func() bool { status, _ := s.ask("GET", "/v1/stats", ""); return status == 200 })
}

// A file that can't be read to its end, such as one of a server that is gone, does not hold
// up a stop.
func TestStopDuringAReload(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	s := serveFiles(t, map[string]string{"tokens": firstToken, "c.yaml": fmt.Sprintf(reloadConfig, redis.URL()) + "shutdown: {timeout: 1s}\n"})
	if err := os.Remove(s.file("c.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.file("c.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cmd.Process.Signal(syscall.SIGHUP)
	poll.Until(t, time.Minute, "the bridge reads", func() bool {
		writer, err := os.OpenFile(s.file("c.yaml"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { writer.Close() })
		}
		return err == nil
	})
	if err := s.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	s.awaitLog("a reload has not ended")
}
