//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// splitRows cut the network in two: an old master with a sentinel, a bridge and
// half of the producers' requests on one side; its replica, two sentinels and a
// bridge on the other.
func splitRows() []*row {
	base := func(number int, name, level, expected string) *row {
		return &row{number: number, name: name, fault: "the network is cut in two for 7 s, without a word to either side, and healed", expected: expected,
			level: level, bridges: 0, set: splitRedis, nemesis: (*run).splitNetwork, rolledBack: true, split: true,
			perFault: 100_000, drainIn: 40 * time.Second, needs: map[string]int{"failover": 1, "unknown": 10}}
	}
	memory := base(41, "split brain, level memory", "memory", "loss is shown")
	memory.mustLose = true
	return []*row{base(14, "split brain", "replicated", "nothing accepted is lost"), memory}
}

// side is one half of the network: a namespace with an address of its own.
type side struct {
	r    *run
	name string
	host string
}

const splitMaster = "delaybridge"

// Ports are free, as each namespace has its own.
const (
	splitRedisPort    = 6379
	splitSentinelPort = 26379
	splitListenerPort = 7420
)

// splitRedis starts both sides with all that is on them, bridges too.
func splitRedis(r *run) redisSetting {
	r.sides = r.makeSides()
	left, right := r.sides[0], r.sides[1]
	left.redis("")
	right.redis(left.host)
	addrs := []string{left.sentinel(splitSentinelPort, left.host), right.sentinel(splitSentinelPort, left.host), right.sentinel(splitSentinelPort+1, left.host)}
	right.await("the replica to follow", splitRedisPort, "state=online", left, "INFO", "replication")
	right.await("the sentinels to know each other", splitSentinelPort, "num-other-sentinels\n2", right, "SENTINEL", "MASTER", splitMaster)
	setting := redisSetting{yaml: fmt.Sprintf(`{addrs: ["%s"], master_name: %s, allow_volatile: true}`, strings.Join(addrs, `", "`), splitMaster)}
	r.addBridgesOnSides(setting.yaml)
	return setting
}

// addBridgesOnSides makes a place for a process on each side, in reach of the
// producers.
func (r *run) addBridgesOnSides(redis string) {
	r.client.Transport = r.reachSides()
	for n, s := range r.sides {
		yaml := r.configuration(redis, fmt.Sprintf("%s:%d", s.host, splitListenerPort))
		r.addBridge(string(rune('a'+n)), []string{"ip", "netns", "exec", s.name}, yaml)
	}
}

// makeSides makes two namespaces with a link between them.
func (r *run) makeSides() [2]*side {
	for _, program := range []string{"ip", "redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			r.Skipf("%s is not there", program)
		}
	}
	id := filepath.Base(r.Dir())
	var sides [2]*side
	for n := range sides {
		sides[n] = &side{r: r, name: fmt.Sprintf("%s-%d", id, n), host: fmt.Sprintf("10.99.0.%d", n+1)}
	}
	for _, s := range sides {
		if out, err := exec.Command("ip", "netns", "add", s.name).CombinedOutput(); err != nil {
			r.Skipf("no network namespace can be made here: %s", strings.TrimSpace(string(out)))
		}
		r.Cleanup(func() { _ = exec.Command("ip", "netns", "del", s.name).Run() }) // or it stays until the machine ends
	}
	r.must("ip", "-n", sides[0].name, "link", "add", "cut", "type", "veth", "peer", "name", "cut", "netns", sides[1].name)
	for _, s := range sides {
		r.must("ip", "-n", s.name, "link", "set", "lo", "up")
		r.must("ip", "-n", s.name, "addr", "add", s.host+"/24", "dev", "cut")
		r.must("ip", "-n", s.name, "link", "set", "cut", "up")
	}
	return sides
}

func (r *run) must(argv ...string) {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		r.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// spawn runs a server on the side until the run is over.
func (s *side) spawn(argv ...string) {
	cmd := exec.Command("ip", append([]string{"netns", "exec", s.name}, argv...)...)
	log, err := os.Create(filepath.Join(s.r.Dir(), fmt.Sprintf("%s-%s.log", filepath.Base(argv[0]), filepath.Base(s.r.TempDir()))))
	if err != nil {
		s.r.Fatalf("%v", err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := servers.StartProcess(cmd)
	if err != nil {
		s.r.Fatalf("start %s: %v", argv[0], err)
	}
	s.r.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
}

// redis starts a server that follows master, if there is one.
func (s *side) redis(master string) {
	argv := []string{"redis-server", "--bind", s.host, "127.0.0.1", "--protected-mode", "no", "--port", fmt.Sprint(splitRedisPort),
		"--dir", s.r.TempDir(), "--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--repl-timeout", "3"}
	if master != "" {
		argv = append(argv, "--replicaof", master, fmt.Sprint(splitRedisPort))
	}
	s.spawn(argv...)
	s.await("redis to answer", splitRedisPort, "PONG", s, "PING")
}

// sentinel starts one and returns its address.
func (s *side) sentinel(port int, master string) string {
	file := filepath.Join(s.r.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind %s 127.0.0.1\nprotected-mode no\nsentinel monitor %s %s %d 2\nsentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 5000\n",
		port, s.host, splitMaster, master, splitRedisPort)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.r.Fatalf("%v", err)
	}
	s.spawn("redis-server", file, "--sentinel")
	s.await("sentinel to answer", port, "PONG", s, "PING")
	return fmt.Sprintf("%s:%d", s.host, port)
}

// ask has a server on the side answer a command.
func (s *side) ask(port int, command ...string) string {
	argv := append([]string{"netns", "exec", s.name, "redis-cli", "-p", fmt.Sprint(port)}, command...)
	out, _ := exec.Command("ip", argv...).CombinedOutput() // whoever waits for an answer asks again
	return string(out)
}

const sideReadyIn = 30 * time.Second

// await returns when the server at the port on the side of whom answers with that.
func (s *side) await(what string, port int, answer string, whom *side, command ...string) {
	last := ""
	if !poll.Holds(sideReadyIn, func() bool { last = whom.ask(port, command...); return strings.Contains(last, answer) }) {
		s.r.Fatalf("waited %s for %s, and the last answer was %s", sideReadyIn, what, last)
	}
}

const splitFor = 7 * time.Second

func (r *run) splitNetwork() {
	left, right := r.sides[0], r.sides[1]
	over := r.strike("network cut")
	r.must("ip", "-n", left.name, "link", "set", "cut", "down")
	time.Sleep(splitFor)
	right.await("a failover", splitSentinelPort, right.host, right, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", splitMaster)
	r.reached("failover")
	r.must("ip", "-n", left.name, "link", "set", "cut", "up")
	left.await("the old master to follow", splitRedisPort, "master_link_status:up", left, "INFO", "replication")
	over()
	time.Sleep(2 * time.Second)
}
