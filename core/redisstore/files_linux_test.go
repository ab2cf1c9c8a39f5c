package redisstore

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const envFewFiles = "DELAYBRIDGE_TEST_FEW_FILES" // the Redis for it

// TestFewFilesServeManyBuckets: what is owned is served, though the process may open
// fewer files than it owns buckets.
func TestFewFilesServeManyBuckets(t *testing.T) {
	t.Parallel()
	if addr := os.Getenv(envFewFiles); addr != "" {
		serveWithFewFiles(t, addr)
		return
	}
	server := servers.Redis(t, servers.RedisOptions{})
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), envFewFiles+"="+server.Addr())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func serveWithFewFiles(t *testing.T, addr string) {
	const buckets, messages = 256, 2000
	s := open(t, Config{Addrs: []string{addr}, Buckets: buckets, Lease: suiteLease})
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(files) + buckets/2)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Skip(err)
	}
	sink := newCollector(messages)
	defer serve(t, s, sink, core.RetryPolicy{})()
	until(t, "every bucket is owned", func() bool { return len(s.owned.owns("orders")) == buckets })
	var all []*core.Message
	for n := range messages {
		all = append(all, &core.Message{ID: fmt.Sprint("m", n), Sink: "orders", Topic: "t", Delay: 100 * time.Millisecond})
	}
	for _, r := range s.Park(t.Context(), all...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	sink.await(t)
}
