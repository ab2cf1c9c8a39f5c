//go:build unix

package servers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestRedisClusterSpreadsSlots(t *testing.T) {
	t.Parallel()
	for _, masters := range []int{1, 3} {
		c := servers.RedisCluster(t, masters)
		moved := 0
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			if _, err := c.Masters[0].Do("SET", key, "1"); err == nil {
				continue
			} else if !strings.Contains(err.Error(), "MOVED") {
				t.Fatal(err)
			}
			moved++
		}
		if (moved > 0) != (masters > 1) {
			t.Errorf("%d masters: %d of 6 keys are elsewhere", masters, moved)
		}
	}
}

func TestFailoverClusterReplacesAMaster(t *testing.T) {
	t.Parallel()
	c := servers.FailoverCluster(t, 3, 1)
	c.Masters[0].Kill()
	within(t, 20*time.Second, "the replica takes over", func() bool {
		role, _ := c.Replicas[0].MustDo("ROLE").([]any)
		return role[0] == "master"
	})
	c.Masters[0].Start()
	within(t, 20*time.Second, "the old master follows", func() bool {
		role, _ := c.Masters[0].MustDo("ROLE").([]any)
		return role[0] == "slave"
	})
}

func TestSentinelReplacesAMaster(t *testing.T) {
	t.Parallel()
	g := servers.Sentinel(t, 3)
	if got := g.MasterAddr(); got != g.Master.Addr() {
		t.Fatalf("the master is %s, want %s", got, g.Master.Addr())
	}
	g.Master.Kill()
	within(t, 20*time.Second, "the replica takes over", func() bool {
		return g.MasterAddr() == g.Replica.Addr()
	})
}
