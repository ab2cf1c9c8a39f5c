//go:build unix

package integration

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

var embeddedPrints = regexp.MustCompile(`^accepted (\S+) (\S+) <nil>\ndelivered (\S+) (\S+) reminders pay soon$`)

// TestEmbeddedExample builds and runs the example, with each of its stores.
func TestEmbeddedExample(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "embedded")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/embedded").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	t.Run("in memory", func(t *testing.T) { runEmbedded(t, exec.Command(program)) })
	t.Run("in Redis", func(t *testing.T) {
		runEmbedded(t, exec.Command(program, "-redis", servers.Redis(t, servers.RedisOptions{}).Addr()))
	})
}

// runEmbedded runs the program until its reminder has arrived, and ends it.
func runEmbedded(t *testing.T, cmd *exec.Cmd) {
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	defer cmd.Process.Kill() // if it is not what it should be
	lines := bufio.NewScanner(out)
	var printed []string
	for len(printed) < 2 && lines.Scan() {
		printed = append(printed, lines.Text())
	}
	slices.Sort(printed) // two goroutines print
	text := strings.Join(printed, "\n")
	found := embeddedPrints.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("it printed %q (%v)", text, lines.Err())
	}
	id, arrived := found[1], found[3]
	due, at := parseTime(t, found[2]), parseTime(t, found[4])
	if at.Before(due) || arrived != id {
		t.Errorf("%s, due at %s, arrived as %s at %s", id, due, arrived, at)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(core.TimeFormat, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestEmbeddingPage: what the page shows of the example is what the example has.
func TestEmbeddingPage(t *testing.T) {
	shown := strings.ReplaceAll(snippetOf(t, "../docs/embedding.md", "examples/embedded"), "\n", "\n\t")
	example, err := os.ReadFile("../examples/embedded/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(example), shown) {
		t.Errorf("the example has no:\n%s", shown)
	}
}
