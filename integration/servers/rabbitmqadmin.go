//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// RabbitMQAdmin is RabbitMQ's own tool that speaks to its HTTP API.
type RabbitMQAdmin struct {
	t    TB
	tool string
	port int
}

// EnableManagement has the server offer its HTTP API, and returns the tool for
// it. That takes some seconds.
func (s *RabbitMQServer) EnableManagement() *RabbitMQAdmin {
	s.t.Helper()
	s.own()
	tool, err := exec.LookPath("rabbitmqadmin")
	if err != nil {
		unavailable(s.t, "rabbitmqadmin not found: install it with `apt-get install rabbitmq-server`, or run `make deps`")
	}
	a := &RabbitMQAdmin{t: s.t, tool: tool, port: freePorts(s.t, 1)}
	s.Ctl("eval", fmt.Sprintf(`application:set_env(rabbitmq_management, tcp_config, [{port, %d}, {ip, "127.0.0.1"}], [{persistent, true}]).`, a.port))
	enable := exec.Command(rabbitProgram(s.t, "rabbitmq-plugins"), "enable", "rabbitmq_management")
	enable.Env = append(os.Environ(), s.env...)
	if out, err := enable.CombinedOutput(); err != nil {
		s.t.Fatalf("enable rabbitmq_management: %v\n%s", err, out)
	}
	return a
}

// Run runs the tool as guest and returns what it prints.
func (a *RabbitMQAdmin) Run(args ...string) string {
	a.t.Helper()
	all := append([]string{"--host=127.0.0.1", "--port=" + strconv.Itoa(a.port), "--username=guest", "--password=guest"}, args...)
	out, err := exec.Command(a.tool, all...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("rabbitmqadmin %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}
