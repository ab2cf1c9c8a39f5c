package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// hostMain is the test binary as a host of its own: it opens the plugin whose
// configuration is in its environment, prints the process's number, and stays.
func hostMain() {
	sink, err := Opener(slog.Default())(context.Background(), json.RawMessage(os.Getenv("PLUGIN_TEST_CONFIG")))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(sink.(core.Describer).Describe()["pid"])
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestKilledHostLeavesNoOrphan: the plugin ends with a host that can't end it.
func TestKilledHostLeavesNoOrphan(t *testing.T) {
	t.Setenv("TMPDIR", evilDir) // what a killed host leaves is removed with that
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), "PLUGIN_TEST_ROLE=host", "PLUGIN_TEST_CONFIG="+string(configOf(t, "normal", nil)))
	stdin, _ := host.StdinPipe()
	stdout, _ := host.StdoutPipe()
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid := strings.TrimSpace(line)
	if err != nil || !alive(pid) {
		t.Fatalf("host said %q %v", line, err)
	}
	host.Process.Signal(syscall.SIGKILL)
	host.Wait()
	poll.Until(t, slack, "plugin gone", func() bool { return !alive(pid) })
}

// TestKilledUnderLoad: a plugin that is killed again and again while messages
// are due loses none of them, and what it repeats says so.
func TestKilledUnderLoad(t *testing.T) {
	const kills = 20
	e := openEvil(t, "slow", func(s *settings) {
		s.pace.first, s.pace.longest, s.pace.crashes = 10*time.Millisecond, 10*time.Millisecond, 1000
	})
	store := memstore.New(memstore.Config{})
	retry := core.RetryPolicy{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond, MaxAttempts: 100}
	dispatcher := &core.Dispatcher{Name: "evil", Sink: e.Sink, Retry: retry, MaxBatch: 20, Log: e.journal.log()}
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() { store.Serve(ctx, "evil", dispatcher.Run) })
	defer served.Wait()
	defer cancel()

	enough, accepted := make(chan struct{}), make(chan int)
	in := core.NewBridge(store, core.Options{}, dispatcher).Interceptor
	go func() { accepted <- acceptUntil(ctx, enough, in) }()
	for n := range kills {
		delivered := dispatcher.Totals().Delivered
		poll.Until(t, 30*time.Second, "deliveries between kills", func() bool { return dispatcher.Totals().Delivered > delivered+20 })
		e.signal(syscall.SIGKILL)
		e.restarted(n+1, slack)
	}
	close(enough)
	total := <-accepted
	poll.Until(t, 60*time.Second, "all delivered", func() bool { return dispatcher.Totals().Delivered >= uint64(total) })
	repeats := checkRecord(t, e.record, total)
	totals := dispatcher.Totals()
	t.Logf("%d kills, %d messages, %d repeats, %d unknown", kills, total, repeats, totals.Unknown)
	if totals.Dead > 0 || repeats == 0 || uint64(repeats) > totals.Unknown {
		t.Errorf("%d dead letters, %d repeats, %d unknown", totals.Dead, repeats, totals.Unknown)
	}
}

// acceptUntil accepts some thousand messages a second, m0, m1 and so on, and
// returns how many.
func acceptUntil(ctx context.Context, enough <-chan struct{}, in *core.Interceptor) int {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; {
		select {
		case <-enough:
			return n
		case <-ctx.Done():
			return n
		case <-ticker.C:
		}
		for range 5 {
			m := &core.Message{ID: fmt.Sprintf("m%d", n), Sink: "evil", Topic: "t", Body: []byte("b")}
			if in.Accept(ctx, m)[0].Err == nil {
				n++
			}
		}
	}
}

// checkRecord looks whether m0 to the last have arrived, and returns how many
// arrived again.
func checkRecord(t *testing.T, path string, total int) (repeats int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	attempts := make(map[string]int, total)
	for line := range strings.Lines(string(text)) {
		var id string
		var attempt int
		if _, err := fmt.Sscanf(line, "%s %d\n", &id, &attempt); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if attempts[id] > 0 {
			repeats++
			if attempt <= 1 {
				t.Errorf("%s came again as attempt %d", id, attempt)
			}
		}
		attempts[id] = attempt
	}
	for n := range total {
		if id := fmt.Sprintf("m%d", n); attempts[id] == 0 {
			t.Errorf("%s is lost", id)
		}
	}
	return repeats
}
