//go:build unix

package servers

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// AOF says how a Redis keeps its append-only file.
type AOF string

// What a restart of the server, or of the machine, keeps.
const (
	AOFEverySec AOF = ""       // fsync once a second; Redis's own default
	AOFAlways   AOF = "always" // fsync before each reply
	AOFOff      AOF = "off"    // a restart forgets all
)

// RedisOptions are how a private Redis is started. The zero value is one master
// with an append-only file.
type RedisOptions struct {
	AOF       AOF
	ReplicaOf *RedisServer // follows this one
	Password  string       // of the user default; empty: none
	Args      []string     // more of redis-server's arguments, which win over ours
	Program   string       // the redis-server to start; empty: that of REDIS, or of PATH
}

// RedisServer is one redis-server.
type RedisServer struct {
	Node
	addr           string
	user, password string
}

const redisReadyIn = 60 * time.Second

// Redis starts a Redis that ends with the test, or returns that of
// DELAYBRIDGE_TEST_REDIS if the options allow it. It returns when the server
// answers; a replica, when it has synchronised.
func Redis(t TB, o RedisOptions) *RedisServer {
	t.Helper()
	if addrs := external("DELAYBRIDGE_TEST_REDIS"); addrs != nil {
		if o.AOF != AOFEverySec || o.ReplicaOf != nil || o.Password != "" || o.Args != nil || o.Program != "" {
			t.Skipf("needs a redis-server of its own, and DELAYBRIDGE_TEST_REDIS is set")
		}
		return externalRedis(t, addrs[0])
	}
	s := newRedis(t, "redis", o.args()...)
	s.process.argv[0] = cmp.Or(o.Program, s.process.argv[0])
	s.password = o.Password
	s.Start()
	if o.ReplicaOf != nil {
		s.await("follow "+o.ReplicaOf.addr, s.linkUp)
	}
	return s
}

func (o RedisOptions) args() []string {
	var args []string
	switch o.AOF {
	case AOFOff:
		args = append(args, "--appendonly", "no")
	case AOFAlways:
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	default:
		args = append(args, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	if o.ReplicaOf != nil {
		args = append(args, "--replicaof", "127.0.0.1", portOf(o.ReplicaOf.addr))
	}
	if o.Password != "" {
		args = append(args, "--requirepass", o.Password, "--masterauth", o.Password)
	}
	return append(args, o.Args...)
}

// newRedis describes a server that is not started yet.
func newRedis(t TB, name string, args ...string) *RedisServer {
	t.Helper()
	return newRedisAt(t, name, freePorts(t, 1), args...)
}

func newRedisAt(t TB, name string, port int, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	argv := append([]string{redisProgram(t), "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--dir", dir, "--save", "", "--repl-diskless-sync-delay", "0"}, args...)
	return redisFrom(t, port, &process{name: name, dir: dir, argv: argv})
}

func redisFrom(t TB, port int, p *process) *RedisServer {
	s := &RedisServer{addr: loopback(port)}
	s.Node = Node{t: t, what: p.name + " " + s.addr, process: p, readyIn: redisReadyIn, ready: s.ping}
	t.Cleanup(p.kill)
	return s
}

// redisProgram is that of PATH, or the one that the environment asks for.
func redisProgram(t TB) string {
	t.Helper()
	switch version := os.Getenv("REDIS"); version {
	case "":
	case "6.2":
		return Redis62(t)
	case "8.0":
		return Redis80(t)
	case "valkey-8.1":
		return newer(t, "usr/bin/valkey-server")
	default:
		t.Fatalf("REDIS=%s is none of 6.2, 8.0 and valkey-8.1", version)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		unavailable(t, "redis-server not found: install it with `apt-get install redis-server`, or run `make deps`")
	}
	return path
}

// externalRedis is a server that others started. Since tests empty it, it has
// to be empty when they come.
func externalRedis(t TB, name string) *RedisServer {
	t.Helper()
	s := &RedisServer{Node: Node{t: t, what: "that of DELAYBRIDGE_TEST_REDIS"}, addr: name}
	if strings.Contains(name, "://") {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatalf("DELAYBRIDGE_TEST_REDIS is not a URL") // it may hold a password
		}
		s.addr, s.user = u.Host, u.User.Username()
		s.password, _ = u.User.Password()
	}
	if size, err := s.do(respPatience, "DBSIZE"); err != nil {
		t.Fatalf("DELAYBRIDGE_TEST_REDIS: %v", err)
	} else if size != int64(0) {
		t.Fatalf("DELAYBRIDGE_TEST_REDIS has %v keys: tests empty it, so give them one of their own", size)
	}
	t.Cleanup(s.FlushAll)
	return s
}

// Addr is the server's host:port.
func (s *RedisServer) Addr() string { return s.addr }

// URL is the server's address as Redis clients take it, with its password if it
// has one.
func (s *RedisServer) URL() string {
	u := url.URL{Scheme: "redis", Host: s.addr, Path: "/0"}
	if s.password != "" {
		u.User = url.UserPassword(s.user, s.password)
	}
	return u.String()
}

// Do sends one command. The reply is a string, an int64, nil or a []any of
// these; an error reply is an error. It gives up after three seconds.
func (s *RedisServer) Do(command ...string) (any, error) { return s.do(respTimeout, command...) }

func (s *RedisServer) do(timeout time.Duration, command ...string) (any, error) {
	reply, err := respDo(s.addr, s.user, s.password, timeout, command...)
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", command[0], err)
	}
	return reply, nil
}

// MustDo is Do that waits for half a minute, and ends the test on an error.
func (s *RedisServer) MustDo(command ...string) any {
	s.t.Helper()
	reply, err := s.do(respPatience, command...)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	return reply
}

// FlushAll removes all keys and all scripts.
func (s *RedisServer) FlushAll() {
	s.t.Helper()
	s.MustDo("FLUSHALL")
	s.MustDo("SCRIPT", "FLUSH")
}

// ping also fails while the append-only file is being loaded.
func (s *RedisServer) ping() error {
	_, err := s.Do("PING")
	return err
}

func (s *RedisServer) linkUp() error {
	return s.reports([]string{"INFO", "replication"}, "master_link_status:up")
}

func (s *RedisServer) clusterInfo(lines ...string) error {
	return s.reports([]string{"CLUSTER", "INFO"}, lines...)
}

// reports fails if the reply to a command lacks one of the lines.
func (s *RedisServer) reports(command []string, lines ...string) error {
	reply, err := s.Do(command...)
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	for _, line := range lines {
		if !strings.Contains(text, line+"\r\n") {
			return fmt.Errorf("%s is not there yet", line)
		}
	}
	return nil
}
