//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
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
	*servers.Bridge
	t   *testing.T
	url string
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
	cmd := exec.Command(path, "serve", "--config", file)
	cmd.Stdout = out
	b, err := servers.StartBridge(cmd, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	i := &instance{Bridge: b, t: t, url: b.Ready(2 * time.Minute)}
	if i.url == "" {
		t.Fatalf("instance is not ready:\n%s", &b.Logs)
	}
	return i
}

// stop ends the instance as an operator does.
func (i *instance) stop() {
	i.t.Helper()
	if err := i.Stop(2 * time.Minute); err != nil {
		i.t.Errorf("serve: %v", err)
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
	Time      time.Time       `json:"time"`
	ID        string          `json:"id"`
	DeliverAt time.Time       `json:"deliver_at"`
	Attempt   int             `json:"attempt"`
	Lateness  float64         `json:"lateness_ms"`
	Headers   json.RawMessage `json:"headers"`
}

// deliveries reads what the console sink has written so far.
func deliveries(t *testing.T, path string) map[string][]delivery {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]delivery)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // is being written
		}
		var d delivery
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all[d.ID] = append(all[d.ID], d)
	}
	return all
}

// get asks the instance for what path names and decodes the answer into into. An
// answer that is late, or says that the store is slow, is an error: ask again.
func (i *instance) get(path string, into any) error {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(i.url + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	return nil
}

// sinkStats is how a sink stands.
type sinkStats struct {
	Sink      string `json:"sink"`
	Scheduled int    `json:"scheduled"`
	Due       int    `json:"due"`
	Dead      int    `json:"dead"`
	Paused    string `json:"paused"`
	Done      struct {
		Delivered int `json:"delivered"`
		Retried   int `json:"retried"`
		Unknown   int `json:"unknown"`
	} `json:"since_start"`
}

// stats is what the instance tells of a sink, as soon as it answers.
func (i *instance) stats(sink string) sinkStats {
	i.t.Helper()
	var answer struct {
		Sinks []sinkStats `json:"sinks"`
	}
	poll.Until(i.t, answersIn, "the stats are told", func() bool { return i.get("/v1/stats", &answer) == nil })
	for _, s := range answer.Sinks {
		if s.Sink == sink {
			return s
		}
	}
	i.t.Fatalf("no sink %s in the stats", sink)
	return sinkStats{}
}

// answersIn is when an instance on a busy machine has answered at last.
const answersIn = 90 * time.Second
