//go:build unix

package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// Versions of RocketMQ that the tests run with.
const (
	RocketMQ4 = "4.9.7"
	RocketMQ5 = "5.3.3"
)

// RocketMQOptions are how a private RocketMQ is started. The zero value is one
// broker of the newer version.
type RocketMQOptions struct {
	Version string // RocketMQ5
	// AdvertiseHost is the host that the broker gives to clients instead of
	// 127.0.0.1, for a proxy that listens there on the same port.
	AdvertiseHost string
	// Logins: clients have to log in, and may do what Allow says. Not for version 4.
	Logins bool
	// Join starts a broker only, at the name server of another; it needs another
	// brokerName in Config.
	Join   *RocketMQCluster
	Config []string // more lines of the broker's configuration, as name=value; they win
}

// RocketMQCluster is a name server and one broker, its own.
type RocketMQCluster struct {
	t                  TB
	nameServer, broker *Node
	nameServers        []string
	brokerAddr         string
	advertised         *brokerList
	configure          func(lines []string) // writes the broker's configuration
}

const (
	rocketReadyIn = 120 * time.Second
	rocketAdminIn = 60 * time.Second // what takes rocketTimeout at most is tried again until then
	// rocketPorts: the name server's, and the broker's, which also takes the
	// second port before and the one after it.
	rocketPorts      = 5
	rocketBrokerPort = 3
	rocketCluster    = "delaybridge"
	rocketBrokerName = "broker-a"
)

// RocketMQ starts a name server and a broker that end with the test, or returns
// those of DELAYBRIDGE_TEST_ROCKETMQ if the options allow it. It returns when
// the name server knows the broker. Topics are not created by use: see
// CreateTopic.
func RocketMQ(t TB, o RocketMQOptions) *RocketMQCluster {
	t.Helper()
	if addrs := external("DELAYBRIDGE_TEST_ROCKETMQ"); addrs != nil {
		if o.Version != "" || o.AdvertiseHost != "" || o.Logins || o.Join != nil || o.Config != nil {
			t.Skipf("needs a RocketMQ of its own, and DELAYBRIDGE_TEST_ROCKETMQ is set")
		}
		return &RocketMQCluster{t: t, nameServers: addrs, advertised: &brokerList{}}
	}
	slow(t)
	o = o.withDefaults()
	lib, port, dir := jars(t, "rocketmq", o.Version), freePorts(t, rocketPorts), t.TempDir()
	c := &RocketMQCluster{t: t, nameServers: []string{loopback(port)}, brokerAddr: loopback(port + rocketBrokerPort), advertised: &brokerList{}}
	writeLogging(t, dir)
	if o.Join != nil {
		c.nameServer, c.nameServers = o.Join.nameServer, o.Join.nameServers
	} else {
		c.nameServer = rocketNameServer(t, lib, dir, port)
		c.nameServer.Start()
	}
	c.broker = c.rocketBroker(o, lib, dir, port+rocketBrokerPort)
	c.broker.Start()
	return c
}

func (o RocketMQOptions) withDefaults() RocketMQOptions {
	if o.Version == "" {
		o.Version = RocketMQ5
	}
	if o.AdvertiseHost == "" {
		o.AdvertiseHost = "127.0.0.1"
	}
	return o
}

func rocketNameServer(t TB, lib, dir string, port int) *Node {
	t.Helper()
	config := writeFile(t, dir, "namesrv.conf", fmt.Sprintf("listenPort=%d\n", port))
	argv := append(rocketJVM(t, lib, dir, "-Xms64m", "-Xmx128m", "-XX:MaxDirectMemorySize=64m"),
		"org.apache.rocketmq.namesrv.NamesrvStartup", "-c", config)
	p := &process{name: "namesrv", dir: dir, argv: argv, env: []string{"ROCKETMQ_HOME=" + dir}}
	t.Cleanup(p.kill)
	return &Node{t: t, what: "rocketmq name server " + loopback(port), process: p, readyIn: rocketReadyIn,
		ready: func() error { _, err := rocketBrokers(loopback(port)); return err }}
}

func (c *RocketMQCluster) rocketBroker(o RocketMQOptions, lib, dir string, port int) *Node {
	t := c.t
	t.Helper()
	config := writeFile(t, dir, "broker.conf", o.brokerConfig(dir, port))
	c.configure = func(lines []string) {
		more := o
		more.Config = slices.Concat(o.Config, lines)
		writeFile(t, dir, "broker.conf", more.brokerConfig(dir, port))
	}
	argv := append(rocketJVM(t, lib, dir, "-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m"),
		"-Drocketmq.broker.diskSpaceWarningLevelRatio=0.98",
		"org.apache.rocketmq.broker.BrokerStartup", "-n", c.nameServers[0], "-c", config)
	p := &process{name: "broker", dir: dir, argv: argv, env: []string{"ROCKETMQ_HOME=" + dir}}
	t.Cleanup(p.kill)
	return &Node{t: t, what: "rocketmq broker " + c.brokerAddr, process: p, readyIn: rocketReadyIn, ready: c.brokerReady,
		prepare: func() error { return dropEmptyFiles(filepath.Join(dir, "store")) }}
}

// dropEmptyFiles does what an operator must: version 4 does not start with a file
// in its store that it was about to make when it was killed.
func dropEmptyFiles(store string) error {
	return filepath.WalkDir(store, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // at the first start
			return nil
		}
		if err != nil || !entry.Type().IsRegular() || !mappedFile.MatchString(entry.Name()) {
			return err
		}
		if info, err := entry.Info(); err != nil || info.Size() > 0 {
			return err
		}
		return os.Remove(path)
	})
}

// mappedFile is the name of a file of the store: the offset at which it begins.
var mappedFile = regexp.MustCompile(`^\d{20}$`)

// rocketJVM is the start of a command: RocketMQ reaches into parts of Java that
// 17 has closed.
func rocketJVM(t TB, lib, dir string, flags ...string) []string {
	t.Helper()
	command := append(jvm(t, dir), flags...)
	for _, open := range []string{"java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref"} {
		command = append(command, "--add-opens", "java.base/"+open+"=ALL-UNNAMED")
	}
	return append(command, "--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
		"-Duser.home="+dir, "-cp", filepath.Join(lib, "*"))
}

// brokerConfig is that of a small broker, which also works on a full disk, and
// on a busy machine does not refuse what has waited for a moment.
func (o RocketMQOptions) brokerConfig(dir string, port int) string {
	config := fmt.Sprintf(`brokerClusterName=%s
brokerName=%s
brokerId=0
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
brokerIP1=%s
listenPort=%d
storePathRootDir=%s
storePathCommitLog=%s
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=50000
maxIndexNum=200000
mappedFileSizeTimerLog=1048576
enableCompaction=false
diskMaxUsedSpaceRatio=95
autoCreateTopicEnable=false
brokerFastFailureEnable=false
osPageCacheBusyTimeOutMills=30000
`, rocketCluster, rocketBrokerName, o.AdvertiseHost, port, filepath.Join(dir, "store"),
		filepath.Join(dir, "store", "commitlog"))
	lines := o.Config
	if o.Logins {
		lines = slices.Concat(rocketLogins(), o.Config)
	}
	for _, line := range lines {
		config += line + "\n"
	}
	return config
}

// writeLogging gives version 4 the files it can't start without.
func writeLogging(t TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "conf"), 0o700); err != nil {
		t.Fatalf("write a configuration: %v", err)
	}
	for _, name := range []string{"namesrv", "broker"} {
		writeFile(t, filepath.Join(dir, "conf"), "logback_"+name+".xml", `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %p %c %m%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`)
	}
}

// brokerReady fails until the name server knows the broker and it answers.
func (c *RocketMQCluster) brokerReady() error {
	brokers, err := rocketBrokers(c.nameServers[0])
	if err != nil {
		return err
	}
	if len(brokers) == 0 {
		return errors.New("the name server does not know it yet")
	}
	_, err = rocketCall(c.brokerAddr, rocketGetRuntime, nil)
	return err
}

// NameServers are the name servers' host:port.
func (c *RocketMQCluster) NameServers() []string { return slices.Clone(c.nameServers) }

// NameServer is the name server, to stop and to start it.
func (c *RocketMQCluster) NameServer() *Node { c.t.Helper(); return c.own(c.nameServer) }

// Broker is the broker, to stop and to start it.
func (c *RocketMQCluster) Broker() *Node { c.t.Helper(); return c.own(c.broker) }

// Configure changes the broker's configuration from its next start on: it is
// that of the options, and these lines, as name=value, which win.
func (c *RocketMQCluster) Configure(lines ...string) {
	c.t.Helper()
	c.own(c.broker)
	c.configure(lines)
}

func (c *RocketMQCluster) own(n *Node) *Node {
	c.t.Helper()
	if n == nil {
		c.t.Skipf("needs a RocketMQ of its own, and DELAYBRIDGE_TEST_ROCKETMQ is set")
	}
	return n
}

// BrokerAddr is the host:port that the first broker gives to clients.
func (c *RocketMQCluster) BrokerAddr() string {
	c.t.Helper()
	return c.brokers()[0]
}

func (c *RocketMQCluster) brokers() []string {
	c.t.Helper()
	brokers, err := c.advertised.of(c.nameServers[0])
	if err != nil {
		c.t.Fatalf("list rocketmq brokers: %v", err)
	}
	return brokers
}

// brokerList is what a name server says of the brokers, which does not change.
type brokerList struct {
	mu    sync.Mutex
	addrs []string // once it has said so
}

func (l *brokerList) of(nameServer string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addrs) > 0 {
		return l.addrs, nil
	}
	err := poll.Succeeds(rocketAdminIn, func() (err error) {
		if l.addrs, err = rocketBrokers(nameServer); err == nil && len(l.addrs) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	return l.addrs, err
}

// HasTopic tells whether the name server has a route to the topic.
func (c *RocketMQCluster) HasTopic(topic string) bool {
	return rocketHasRoute(c.nameServers[0], topic) == nil
}

// CreateTopic creates a topic on its broker, or on all if others started them, or
// changes its number of queues, and returns when the name server has its route.
func (c *RocketMQCluster) CreateTopic(topic string, queues int) {
	c.t.Helper()
	for _, addr := range c.brokers() {
		if c.broker != nil {
			addr = c.brokerAddr // rather than what it advertises, which may be a proxy
		}
		create := func() error { return rocketCreateTopic(addr, topic, queues) }
		if err := poll.Succeeds(rocketAdminIn, create); err != nil {
			c.t.Fatalf("create rocketmq topic %s: %v", topic, err)
		}
	}
	err := poll.Succeeds(rocketReadyIn, func() error { return rocketHasRoute(c.nameServers[0], topic) })
	if err != nil {
		c.t.Fatalf("await rocketmq topic %s: %v", topic, err)
	}
}
