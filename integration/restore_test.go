//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestBackupIsRestored runs the commands of docs/operations.md: what was parked at the
// backup is there again, also what was delivered since.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	const document = "../docs/operations.md"
	dir, out := t.TempDir(), output(t)
	run := func(mark string, redis *servers.RedisServer) {
		at := strings.Replace(redis.Addr(), ":", " -p ", 1)
		shell(t, "cd "+dir+"\n"+strings.ReplaceAll(snippetOf(t, document, mark), "127.0.0.1 -p 6379", at), dir)
	}
	config := func(redis *servers.RedisServer) string {
		return fmt.Sprintf(`{store: {redis: {url: %q}}, http: {listen: "127.0.0.1:0"}, sinks: {out: {type: console, config: {format: json}}}}`, redis.URL())
	}
	deliver := func(b *instance, times int) {
		t.Helper()
		answer, err := http.Post(b.url+"/v1/messages/a/deliver-now", "", nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", answer, err)
		}
		answer.Body.Close()
		poll.Until(t, time.Minute, "it is delivered", func() bool { return len(deliveries(t, out.Name())["a"]) == times })
	}

	lost := servers.Redis(t, servers.RedisOptions{})
	bridge := serve(t, config(lost), out)
	if !bridge.post("a", time.Hour) || !bridge.post("b", time.Hour) {
		t.Fatal("not accepted")
	}
	run("run: backup", lost)
	deliver(bridge, 1)
	bridge.stop()
	lost.Kill()

	restored := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFOff, Args: []string{"--dir", dir, "--dbfilename", "delaybridge.rdb"}})
	run("run: restore", restored)
	bridge = serve(t, config(restored), out)
	if n := bridge.stats("out").Scheduled; n != 2 {
		t.Errorf("%d messages are parked", n)
	}
	deliver(bridge, 2)
	bridge.stop()
}
