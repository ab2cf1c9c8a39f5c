//go:build unix

package servers

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RabbitMQServer is one RabbitMQ node.
type RabbitMQServer struct {
	Node
	url string
	env []string // for its command line tools
}

const (
	rabbitReadyIn = 90 * time.Second
	// rabbitPorts: clients, between nodes, and the Erlang port mapper.
	rabbitPorts = 3
)

// RabbitMQ starts a RabbitMQ that ends with the test, or returns that of
// DELAYBRIDGE_TEST_AMQP. It returns when the server speaks AMQP. The user guest
// (password guest) may do everything.
func RabbitMQ(t TB) *RabbitMQServer {
	t.Helper()
	if urls := external("DELAYBRIDGE_TEST_AMQP"); urls != nil {
		return &RabbitMQServer{Node: Node{t: t, what: "that of DELAYBRIDGE_TEST_AMQP"}, url: urls[0]}
	}
	slow(t)
	program := rabbitProgram(t, "rabbitmq-server")
	port, dir := freePorts(t, rabbitPorts), t.TempDir()
	s := &RabbitMQServer{url: "amqp://guest:guest@" + loopback(port) + "/"}
	s.env = rabbitEnv(dir, port)
	if os.Getenv("RABBITMQ") != "" {
		s.env = append(s.env, "PATH="+newer(t, "usr/lib/erlang/bin")+":"+os.Getenv("PATH"))
	}
	startMapper(t, dir, s.env)
	writeFile(t, dir, "rabbitmq.conf", rabbitConfig)
	writeFile(t, dir, "enabled_plugins", "[].\n")
	p := &process{name: "rabbitmq", dir: dir, argv: []string{program}, env: s.env}
	s.Node = Node{t: t, what: "rabbitmq " + loopback(port), process: p, readyIn: rabbitReadyIn,
		ready: func() error { return speaksAMQP(loopback(port)) }}
	t.Cleanup(p.kill)
	s.Start()
	return s
}

const rabbitConfig = `vm_memory_high_watermark.relative = 0.6
disk_free_limit.absolute = 10MB
loopback_users = none
`

// rabbitEnv makes the server's own scripts keep to dir, and to one process:
// with RABBITMQ_ALLOW_INPUT the start script becomes the server instead of its
// parent, so that signals and the parent-death signal reach it.
func rabbitEnv(dir string, port int) []string {
	return []string{
		"HOME=" + dir, // of the cookie that nodes and tools share
		"ERL_EPMD_PORT=" + strconv.Itoa(port+2),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=delaybridge@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(port),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(port+1),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "enabled_plugins"),
		"RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
	}
}

// rabbitProgram finds one of RabbitMQ's scripts, of the version that the environment
// asks for. Debian's own in /usr/sbin are wrappers that change user and directory, so
// the ones behind them come first.
func rabbitProgram(t TB, name string) string {
	t.Helper()
	behind := filepath.Join("/usr/lib/rabbitmq/bin", name)
	switch version := os.Getenv("RABBITMQ"); version {
	case "":
	case "4.0":
		return newer(t, behind)
	default:
		t.Fatalf("RABBITMQ=%s is not 4.0", version)
	}
	if _, err := os.Stat(behind); err == nil {
		return behind
	}
	path, err := exec.LookPath(name)
	if err != nil {
		unavailable(t, "%s not found: install it with `apt-get install rabbitmq-server`, or run `make deps`", name)
	}
	return path
}

// startMapper runs the Erlang port mapper that RabbitMQ would else leave behind
// as a daemon, for all to reach.
func startMapper(t TB, dir string, env []string) {
	t.Helper()
	path, err := exec.LookPath("epmd")
	if err != nil {
		unavailable(t, "epmd not found: install it with `apt-get install erlang-base`, or run `make deps`")
	}
	p := &process{name: "epmd", dir: dir, argv: []string{path}, env: env}
	t.Cleanup(p.kill)
	if err := p.start(); err != nil {
		t.Fatalf("%v", err)
	}
}

// speaksAMQP fails unless the server answers the protocol header, which it does
// once it has started.
func speaksAMQP(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
		return err
	}
	// A method frame (1) on channel 0, seven bytes in front of its content:
	// connection.start (10, 10).
	answer, want := make([]byte, 11), []byte{0, 10, 0, 10}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if answer[0] != 1 || !bytes.Equal(answer[7:], want) {
		return fmt.Errorf("answered % x, not connection.start", answer)
	}
	return nil
}

// URL is the server's address as AMQP clients take it, with the user guest.
func (s *RabbitMQServer) URL() string { return s.url }

// URLAs is the URL for another user.
func (s *RabbitMQServer) URLAs(user, password string) string {
	s.t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatalf("DELAYBRIDGE_TEST_AMQP is not a URL") // it may hold a password
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// Addr is the server's host:port.
func (s *RabbitMQServer) Addr() string {
	u, err := url.Parse(s.url)
	if err != nil {
		return ""
	}
	return u.Host
}

// Ctl runs rabbitmqctl and returns what it prints. That takes a second or two.
// The node listens a little before it takes commands; for that it waits.
func (s *RabbitMQServer) Ctl(args ...string) string {
	s.t.Helper()
	s.own()
	out, err := s.ctl(args...)
	if err != nil && strings.Contains(out, "app to be running") {
		if out, err = s.ctl("await_startup", "--timeout", strconv.Itoa(int(rabbitReadyIn.Seconds()))); err == nil {
			out, err = s.ctl(args...)
		}
	}
	if err != nil {
		s.t.Fatalf("rabbitmqctl %s: %v\n%s", args[0], err, out)
	}
	return out
}

func (s *RabbitMQServer) ctl(args ...string) (string, error) {
	cmd := exec.Command(rabbitProgram(s.t, "rabbitmqctl"), append([]string{"--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// AddUser adds a user with the permissions, each a pattern of names, to
// configure, to write and to read.
func (s *RabbitMQServer) AddUser(user, password, configure, write, read string) {
	s.t.Helper()
	s.Ctl("add_user", user, password)
	s.Ctl("set_permissions", user, configure, write, read)
}

// MemoryAlarm makes the server believe, or not, that it is out of memory: then
// it blocks all connections that publish.
func (s *RabbitMQServer) MemoryAlarm(on bool) {
	s.t.Helper()
	if on {
		s.Ctl("set_vm_memory_high_watermark", "0.000001")
	} else {
		s.Ctl("set_vm_memory_high_watermark", "0.6")
	}
}

// DiskAlarm makes the server believe, or not, that its disk is full: then too it
// blocks all connections that publish.
func (s *RabbitMQServer) DiskAlarm(on bool) {
	s.t.Helper()
	if on {
		s.Ctl("set_disk_free_limit", "1000000GB")
	} else {
		s.Ctl("set_disk_free_limit", "10MB")
	}
}

func writeFile(t TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("write a configuration: %v", err)
	}
	return path
}
