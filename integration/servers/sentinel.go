//go:build unix

package servers

import (
	"fmt"
	"strconv"
	"time"
)

// SentinelName is what the sentinels call their master.
const SentinelName = "delaybridge"

// SentinelGroup is a master, its replica and the sentinels that watch them.
type SentinelGroup struct {
	Master    *RedisServer // as it was started; a fail-over changes the roles
	Replica   *RedisServer
	Sentinels []*RedisServer
}

// Sentinel starts a master, a replica and so many sentinels (a majority of which
// decides), and returns when all know of each other. A master that has been
// silent for that long is replaced within a few seconds more.
func Sentinel(t TB, sentinels int, silence time.Duration) *SentinelGroup {
	t.Helper()
	if external("DELAYBRIDGE_TEST_REDIS") != nil {
		t.Skipf("needs redis-servers of its own, and DELAYBRIDGE_TEST_REDIS is set")
	}
	g := &SentinelGroup{Master: Redis(t, RedisOptions{})}
	g.Replica = Redis(t, RedisOptions{ReplicaOf: g.Master})
	for range sentinels {
		g.Sentinels = append(g.Sentinels, startSentinel(t, g.Master, sentinels/2+1, silence))
	}
	for _, s := range g.Sentinels {
		s.await("find the others", func() error { return s.watches(1, sentinels-1) })
	}
	return g
}

// startSentinel gives the sentinel a file, as it insists on keeping its state
// in its configuration.
func startSentinel(t TB, master *RedisServer, quorum int, silence time.Duration) *RedisServer {
	t.Helper()
	port, dir := freePorts(t, 1), t.TempDir()
	file := writeFile(t, dir, "sentinel.conf", fmt.Sprintf(`port %d
bind 127.0.0.1
dir %q
sentinel resolve-hostnames no
sentinel monitor %s 127.0.0.1 %s %d
sentinel down-after-milliseconds %[3]s %[6]s
sentinel failover-timeout %[3]s 5000
`, port, dir, SentinelName, portOf(master.addr), quorum, milliseconds(silence)))
	s := redisFrom(t, port, &process{
		name: "sentinel", dir: dir, argv: []string{redisProgram(t), file, "--sentinel"}})
	s.Start()
	return s
}

// watches fails unless the sentinel knows so many replicas and other sentinels.
func (s *RedisServer) watches(replicas, others int) error {
	seen, err := s.sentinelMaster()
	if err != nil {
		return err
	}
	for name, want := range map[string]int{"num-slaves": replicas, "num-other-sentinels": others} {
		if seen[name] != strconv.Itoa(want) {
			return fmt.Errorf("%s is %s, not %d", name, seen[name], want)
		}
	}
	return nil
}

// sentinelMaster is what the sentinel knows of the master.
func (s *RedisServer) sentinelMaster() (map[string]string, error) {
	reply, err := s.Do("SENTINEL", "MASTER", SentinelName)
	fields, _ := reply.([]any)
	seen := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		seen[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	return seen, err
}

// Epoch changes with each failover, in the view of the first sentinel.
func (g *SentinelGroup) Epoch() string {
	seen, err := g.Sentinels[0].sentinelMaster()
	if err != nil {
		g.Sentinels[0].t.Fatalf("ask sentinel: %v", err)
	}
	return seen["config-epoch"]
}

// Addrs are the addresses of the sentinels.
func (g *SentinelGroup) Addrs() []string { return addrs(g.Sentinels) }

// MasterAddr is the master's address in the view of the first sentinel.
func (g *SentinelGroup) MasterAddr() string {
	s := g.Sentinels[0]
	reply, _ := s.MustDo("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName).([]any)
	if len(reply) != 2 {
		s.t.Fatalf("sentinel %s knows no master", s.addr)
	}
	return fmt.Sprintf("%v:%v", reply[0], reply[1])
}
