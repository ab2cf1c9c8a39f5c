//go:build linux

package servers_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const leaveServer = "DELAYBRIDGE_TEST_LEAVE_SERVER"

// TestLeaveServer is run by TestServersDieWithTheTestProcess, in a process of
// its own which it has killed.
func TestLeaveServer(t *testing.T) {
	if os.Getenv(leaveServer) == "" {
		t.Skip("runs in a process of its own")
	}
	redis := servers.Redis(t, servers.RedisOptions{})
	os.Stdout.WriteString("addr " + redis.Addr() + "\n")
	select {}
}

func TestServersDieWithTheTestProcess(t *testing.T) {
	servers.Redis(t, servers.RedisOptions{}) // or skip
	child := exec.Command(os.Args[0], "-test.run=^TestLeaveServer$")
	child.Env = append(os.Environ(), leaveServer+"=1", "TMPDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	addr := ""
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "addr ")
	}
	if !answers(addr) {
		t.Fatalf("no server at %q", addr)
	}
	child.Process.Kill()
	child.Wait()
	poll.Until(t, time.Minute, "the server ends", func() bool { return !answers(addr) })
}
