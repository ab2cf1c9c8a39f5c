//go:build unix

package servers_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestRedisClusterSpreadsSlots(t *testing.T) {
	t.Parallel()
	for _, masters := range []int{1, 3} {
		c := servers.RedisCluster(t, masters)
		moved := 0
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			if isElsewhere(t, c.Masters[0], key) {
				moved++
			}
		}
		if (moved > 0) != (masters > 1) {
			t.Errorf("%d masters: %d of 6 keys are elsewhere", masters, moved)
		}
	}
}

// isElsewhere tells whether a server answers that a key is on another one.
func isElsewhere(t *testing.T, server *servers.RedisServer, key string) (moved bool) {
	t.Helper()
	poll.Until(t, time.Minute, "an answer", func() bool {
		_, err := server.Do("SET", key, "1")
		moved = err != nil && strings.Contains(err.Error(), "MOVED")
		return err == nil || moved
	})
	return moved
}

const (
	quick = 1500 * time.Millisecond
	// replacedIn: servers that stood still themselves wait for half a minute, and
	// vote again, before they replace another.
	replacedIn = 2 * time.Minute
)

func TestFailoverClusterReplacesAMaster(t *testing.T) {
	t.Parallel()
	c := servers.FailoverCluster(t, 3, 1, quick)
	c.Masters[0].Kill()
	poll.Until(t, replacedIn, "the replica takes over", func() bool { return role(c.Replicas[0]) == "master" })
	c.Masters[0].Start()
	poll.Until(t, replacedIn, "the old master follows", func() bool { return role(c.Masters[0]) == "slave" })
}

// role is what the server says it is, or nothing if it does not answer now.
func role(server *servers.RedisServer) any {
	reply, err := server.Do("ROLE")
	if parts, _ := reply.([]any); err == nil && len(parts) > 0 {
		return parts[0]
	}
	return nil
}

func TestSentinelReplacesAMaster(t *testing.T) {
	t.Parallel()
	g := servers.Sentinel(t, 3, quick)
	master, replica := g.Master, g.Replica
	switch got := g.MasterAddr(); got {
	case master.Addr():
	case replica.Addr(): // they have replaced it already, as it stood still
		master, replica = replica, master
	default:
		t.Fatalf("the master is %s, neither %s nor %s", got, master.Addr(), replica.Addr())
	}
	master.Kill()
	poll.Until(t, replacedIn, "the replica takes over", func() bool {
		reply, _ := g.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", servers.SentinelName) // it is asked again
		addr, _ := reply.([]any)
		return len(addr) == 2 && net.JoinHostPort(fmt.Sprint(addr[0]), fmt.Sprint(addr[1])) == replica.Addr()
	})
}
