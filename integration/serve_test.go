package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// binary builds the one binary, once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "delaybridge")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "delaybridge")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/delaybridge").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

// instance is one process of `delaybridge serve`.
type instance struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	logs *logWatcher
}

// logWatcher keeps what a process logs and tells when it is ready.
type logWatcher struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan string
	done  bool
}

var readyLine = regexp.MustCompile(`msg=ready .*http=([0-9.:]+)`)

func (w *logWatcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if found := readyLine.FindSubmatch(w.text.Bytes()); found != nil && !w.done {
		w.done = true
		w.ready <- string(found[1])
	}
	return len(b), nil
}

func (w *logWatcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// serve starts an instance that appends what its console sink prints to out.
func serve(t *testing.T, config string, out *os.File) *instance {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "delaybridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	i := &instance{t: t, cmd: exec.Command(path, "serve", "--config", file), logs: &logWatcher{ready: make(chan string, 1)}}
	i.cmd.Stdout, i.cmd.Stderr = out, i.logs
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.cmd.Process.Kill(); i.cmd.Wait() })
	select {
	case addr := <-i.logs.ready:
		i.url = "http://" + addr
	case <-time.After(30 * time.Second):
		t.Fatalf("instance is not ready:\n%s", i.logs)
	}
	return i
}

func (i *instance) kill() {
	i.cmd.Process.Kill()
	i.cmd.Wait()
}

// stop ends the instance as an operator does.
func (i *instance) stop() {
	i.t.Helper()
	i.cmd.Process.Signal(os.Interrupt)
	if err := i.cmd.Wait(); err != nil {
		i.t.Errorf("serve ended with %v:\n%s", err, i.logs)
	}
}

// post accepts one message and tells whether it was accepted.
func (i *instance) post(id string, delay time.Duration) bool {
	body := fmt.Sprintf(`{"id":%q,"topic":"t","delay":"%dms","body":%q}`, id, delay.Milliseconds(), id)
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Post(i.url+"/v1/messages", "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusCreated || answer.StatusCode == http.StatusOK
}

// delivery is a line of the console sink.
type delivery struct {
	Time      time.Time `json:"time"`
	ID        string    `json:"id"`
	DeliverAt time.Time `json:"deliver_at"`
	Attempt   int       `json:"attempt"`
}

func deliveries(t *testing.T, path string) map[string][]delivery {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]delivery)
	for line := range strings.Lines(string(text)) {
		var d delivery
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all[d.ID] = append(all[d.ID], d)
	}
	return all
}

// TestKilledInstanceLosesNothing runs two instances on one Redis and kills one
// of them again and again, at random, while messages come in and go out.
func TestKilledInstanceLosesNothing(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{})
	config := fmt.Sprintf(`store: {redis: {url: "%s"}, ownership: 1s}
http: {listen: "127.0.0.1:0"}
sinks: {orders: {type: console, config: {format: json}}}
`, redis.URL())
	path := filepath.Join(t.TempDir(), "delivered")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	steady, victim := serve(t, config, out), serve(t, config, out)

	const rounds, perRound = 6, 500
	var mu sync.Mutex
	accepted := make(map[string]bool)
	for round := range rounds {
		var posts sync.WaitGroup
		for n := range perRound {
			posts.Go(func() {
				id := fmt.Sprintf("r%d-%d", round, n)
				to := steady
				if n%2 == 1 {
					to = victim
				}
				if to.post(id, time.Duration(rand.IntN(1500))*time.Millisecond) {
					mu.Lock()
					defer mu.Unlock()
					accepted[id] = true
				}
			})
			if n%50 == 49 {
				posts.Wait()
			}
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond) // the moment of the kill is random
		victim.kill()
		posts.Wait()
		victim = serve(t, config, out)
	}
	seen := awaitAll(t, path, accepted)
	steady.stop()
	victim.stop()
	checkDeliveries(t, accepted, seen, rounds)
}

// awaitAll waits until every accepted message has been delivered.
func awaitAll(t *testing.T, path string, accepted map[string]bool) map[string][]delivery {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		seen, missing := deliveries(t, path), 0
		for id := range accepted {
			if len(seen[id]) == 0 {
				missing++
			}
		}
		if missing == 0 {
			return seen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d accepted messages were not delivered", missing, len(accepted))
		}
	}
}

func checkDeliveries(t *testing.T, accepted map[string]bool, seen map[string][]delivery, kills int) {
	t.Helper()
	repeated := 0
	for id, all := range seen {
		for n, d := range all {
			if d.Time.Before(d.DeliverAt) {
				t.Errorf("%s was delivered at %s, before it was due at %s", id, d.Time, d.DeliverAt)
			}
			if n > 0 && d.Attempt == 1 {
				t.Errorf("%s was delivered again, but not as what a crash cut off: attempt 1", id)
			}
		}
		repeated += len(all) - 1
	}
	if len(accepted) < 1000 {
		t.Errorf("only %d messages were accepted; the run says nothing", len(accepted))
	}
	t.Logf("%d accepted, %d delivered, %d repeats in %d kills", len(accepted), len(seen), repeated, kills)
}
