//go:build unix

package servers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// Versions of Kafka that the tests run with.
const (
	Kafka3 = "3.9.1"
	Kafka4 = "4.1.1"
)

// KafkaOptions are how a private Kafka is started. The zero value is one node
// of the older version.
type KafkaOptions struct {
	Version string // Kafka3
	Nodes   int    // 1; with 3, topics have three replicas, two of which confirm
	// Controllers is how many of the nodes, from the first, are controllers too; 0 is
	// all. With one controller of two nodes the other can be lost for long.
	Controllers int
	// AdvertiseHost is the host that brokers give to clients instead of
	// 127.0.0.1, for a proxy that listens there on the same ports.
	AdvertiseHost string
	// Users are who may log in, by SASL PLAIN, and their passwords; see LoginAddrs
	// and Allow.
	Users  map[string]string
	Config map[string]string // more of the server's properties, which win over ours
}

// KafkaCluster is one or more Kafka nodes, each broker and, if nothing else is
// said, controller at once.
type KafkaCluster struct {
	t      TB
	nodes  []*Node
	addrs  []string
	logins bool // LoginAddrs are there

	mu     sync.Mutex
	topics map[string]int // that CreateTopic made: their partitions
}

const (
	kafkaReadyIn = 90 * time.Second
	// kafkaPorts: clients, other brokers, controllers, clients that log in.
	kafkaPorts     = 4
	kafkaLoginPort = 3
	kafkaClusterID = "ZGVsYXlicmlkZ2V0ZXN0cw"
)

// Kafka starts a Kafka that ends with the test, or returns that of
// DELAYBRIDGE_TEST_KAFKA if the options allow it. It returns when every node
// answers and knows itself part of the cluster. Topics are not created by use:
// see CreateTopic.
func Kafka(t TB, o KafkaOptions) *KafkaCluster {
	t.Helper()
	if addrs := external("DELAYBRIDGE_TEST_KAFKA"); addrs != nil {
		if o.Version != "" || o.Nodes > 1 || o.Controllers > 0 || o.AdvertiseHost != "" || o.Users != nil || o.Config != nil {
			t.Skipf("needs a Kafka of its own, and DELAYBRIDGE_TEST_KAFKA is set")
		}
		return &KafkaCluster{t: t, addrs: addrs, topics: map[string]int{}}
	}
	slow(t)
	o = o.withDefaults()
	c := &KafkaCluster{t: t, topics: map[string]int{}, logins: o.Users != nil}
	lib, ports := jars(t, "kafka", o.Version), []int{}
	for range o.Nodes {
		ports = append(ports, freePorts(t, kafkaPorts))
	}
	for id := range o.Nodes {
		c.nodes = append(c.nodes, c.node(o, lib, id, ports))
		c.addrs = append(c.addrs, loopback(ports[id]))
	}
	for _, n := range c.nodes {
		n.launch()
	}
	for _, n := range c.nodes {
		n.await("join", n.ready)
	}
	return c
}

func (o KafkaOptions) withDefaults() KafkaOptions {
	if o.Version == "" {
		o.Version = Kafka3
	}
	if o.AdvertiseHost == "" {
		o.AdvertiseHost = "127.0.0.1"
	}
	o.Nodes = max(o.Nodes, 1)
	if o.Controllers == 0 {
		o.Controllers = o.Nodes
	}
	return o
}

// node describes node id, of those at ports, and makes its directory.
func (c *KafkaCluster) node(o KafkaOptions, lib string, id int, ports []int) *Node {
	t := c.t
	t.Helper()
	dir, addr := t.TempDir(), loopback(ports[id])
	config := writeFile(t, dir, "server.properties", o.properties(dir, id, ports))
	command := append(jvm(t, dir), "-Xms128m", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(lib, "*"))
	formatKafka(t, filepath.Join(dir, "data"), id)
	p := &process{name: "kafka", dir: dir, argv: append(command, "kafka.Kafka", config)}
	t.Cleanup(p.kill)
	ready := func() error { return errors.Join(kafkaJoined(addr, id), c.led()) }
	return &Node{t: t, what: fmt.Sprintf("kafka %d at %s", id, addr), process: p, readyIn: kafkaReadyIn, ready: ready}
}

// formatKafka makes the directory of a new node as Kafka's own tool does, but
// without the second or two that another JVM takes.
func formatKafka(t TB, dir string, id int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("format the directory of kafka: %v", err)
	}
	writeFile(t, dir, "meta.properties", fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\n", kafkaClusterID, id))
}

// properties configure a small node that notices the loss of another quickly.
func (o KafkaOptions) properties(dir string, id int, ports []int) string {
	port := ports[id]
	replicas := strconv.Itoa(min(3, o.Nodes))
	insync := strconv.Itoa(min(2, o.Nodes))
	p := map[string]string{
		"process.roles":            "broker,controller",
		"node.id":                  strconv.Itoa(id),
		"controller.quorum.voters": voters(ports[:o.Controllers]),
		"listeners": fmt.Sprintf("CLIENT://127.0.0.1:%d,BROKER://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d",
			port, port+1, port+2),
		"advertised.listeners":           fmt.Sprintf("CLIENT://%s:%d,BROKER://127.0.0.1:%d", o.AdvertiseHost, port, port+1),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "BROKER",
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       filepath.Join(dir, "data"),
		"auto.create.topics.enable":      "false",
		"default.replication.factor":     replicas,
		"min.insync.replicas":            insync,

		"offsets.topic.num.partitions":             "1",
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.num.partitions":     "1",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            insync,
		"group.initial.rebalance.delay.ms":         "0",

		"num.network.threads":            "2",
		"num.io.threads":                 "4",
		"background.threads":             "2",
		"log.cleaner.dedupe.buffer.size": "4194304",
		"log.segment.bytes":              "16777216",
		"log.index.size.max.bytes":       "1048576",

		"broker.session.timeout.ms":             "3000", // which a node that was killed waits for as well when it starts
		"broker.heartbeat.interval.ms":          "500",
		"controller.quorum.election.timeout.ms": "500",
		"controller.quorum.fetch.timeout.ms":    "1000",
	}
	if id >= o.Controllers {
		p["process.roles"] = "broker"
		p["listeners"], _, _ = strings.Cut(p["listeners"], ",CONTROLLER")
	}
	if o.Users != nil {
		o.addLogins(p, port+kafkaLoginPort)
	}
	maps.Copy(p, o.Config)
	return propertyLines(p)
}

// propertyLines is the text of a properties file.
func propertyLines(p map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", name, p[name])
	}
	return b.String()
}

func voters(ports []int) string {
	var list []string
	for id, port := range ports {
		list = append(list, fmt.Sprintf("%d@127.0.0.1:%d", id, port+2))
	}
	return strings.Join(list, ",")
}

// Addrs are the brokers' host:port.
func (c *KafkaCluster) Addrs() []string { return slices.Clone(c.addrs) }

// Node returns node i, to stop and to start it.
func (c *KafkaCluster) Node(i int) *Node {
	c.t.Helper()
	if c.nodes == nil {
		c.t.Skipf("needs a Kafka of its own, and DELAYBRIDGE_TEST_KAFKA is set")
	}
	return c.nodes[i]
}

// CreateTopic creates a topic with the cluster's default number of replicas,
// and returns when all of its partitions have leaders; a Start awaits
// those too. Configuration is given
// as "name=value".
func (c *KafkaCluster) CreateTopic(topic string, partitions int, config ...string) {
	c.t.Helper()
	create := func(addr string) error { return kafkaCreateTopic(addr, topic, partitions, config) }
	if err := poll.Succeeds(kafkaReadyIn, func() error { return c.any(create) }); err != nil {
		c.t.Fatalf("create kafka topic %s: %v", topic, err)
	}
	c.mu.Lock()
	c.topics[topic] = partitions
	c.mu.Unlock()
	if err := poll.Succeeds(kafkaReadyIn, c.led); err != nil {
		c.t.Fatalf("create kafka topic %s: %v", topic, err)
	}
}

// led fails unless all partitions of the topics that we made have leaders.
func (c *KafkaCluster) led() error {
	c.mu.Lock()
	topics := maps.Clone(c.topics)
	c.mu.Unlock()
	for topic, partitions := range topics {
		for p := range partitions {
			if err := c.any(func(addr string) error { return kafkaLeads(addr, topic, p) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// Leader returns the number of the node that leads a partition, as soon as there
// is one.
func (c *KafkaCluster) Leader(topic string, partition int) int {
	c.t.Helper()
	leader := -1
	err := poll.Succeeds(kafkaReadyIn, func() (err error) {
		for id, addr := range c.addrs {
			if err = kafkaLeads(addr, topic, partition); err == nil {
				leader = id
				return nil
			}
		}
		return err
	})
	if err != nil {
		c.t.Fatalf("find the leader of partition %d of %s: %v", partition, topic, err)
	}
	return leader
}

// any returns nil if f does for one of the brokers.
func (c *KafkaCluster) any(f func(addr string) error) error {
	var err error
	for _, addr := range c.addrs {
		if err = f(addr); err == nil {
			return nil
		}
	}
	return err
}
