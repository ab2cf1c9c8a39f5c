//go:build unix

package servers

import (
	"fmt"
	"strconv"
	"time"
)

// Cluster is a Redis Cluster.
type Cluster struct {
	Masters  []*RedisServer // as it was started; a fail-over changes the roles
	Replicas []*RedisServer
}

const (
	clusterSlots      = 16384
	clusterBusPrivate = 1 // ports from a node's own to its bus
)

// Calm is for how long a server may be silent until its peers give it up, where
// none is to be lost: more than a busy machine stops one.
const Calm = 30 * time.Second

// RedisCluster starts a cluster of so many masters, with the slots spread evenly
// over them, and returns when all agree that it is whole. A single node shows
// the cluster's rules (one slot a script) but none of its redirections.
func RedisCluster(t TB, masters int) *Cluster {
	t.Helper()
	return FailoverCluster(t, masters, 0, Calm)
}

// FailoverCluster is RedisCluster with so many replicas to each master, one of
// which takes over if its master has been silent for that long, and some
// seconds. That takes three masters at least.
func FailoverCluster(t TB, masters, replicasEach int, silence time.Duration) *Cluster {
	t.Helper()
	if external("DELAYBRIDGE_TEST_REDIS") != nil {
		t.Skipf("needs redis-servers of its own, and DELAYBRIDGE_TEST_REDIS is set")
	}
	c := &Cluster{}
	for range masters {
		c.Masters = append(c.Masters, clusterNode(t, silence))
	}
	for range masters * replicasEach {
		c.Replicas = append(c.Replicas, clusterNode(t, silence))
	}
	c.assignSlots()
	c.meet()
	c.awaitWhole()
	for i, replica := range c.Replicas {
		c.replicate(replica, c.Masters[i%masters])
	}
	return c
}

func clusterNode(t TB, silence time.Duration) *RedisServer {
	t.Helper()
	port := freePorts(t, 1+clusterBusPrivate)
	s := newRedisAt(t, "redis", port, "--appendonly", "yes", "--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(port+clusterBusPrivate),
		"--cluster-node-timeout", milliseconds(silence), "--cluster-replica-validity-factor", "0")
	s.Start()
	return s
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (c *Cluster) assignSlots() {
	n := len(c.Masters)
	for i, s := range c.Masters {
		first, last := i*clusterSlots/n, (i+1)*clusterSlots/n-1
		s.MustDo("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		s.MustDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
}

// meet introduces all nodes to the first; they tell each other of the rest.
func (c *Cluster) meet() {
	for _, s := range c.nodes()[1:] {
		port := portOf(s.addr)
		n, _ := strconv.Atoi(port)
		c.Masters[0].MustDo("CLUSTER", "MEET", "127.0.0.1", port, strconv.Itoa(n+clusterBusPrivate))
	}
}

// awaitWhole returns when every node knows all others and all slots.
func (c *Cluster) awaitWhole() {
	nodes := c.nodes()
	known := fmt.Sprintf("cluster_known_nodes:%d", len(nodes))
	for _, s := range nodes {
		s.await("join the cluster", func() error { return s.clusterInfo(known, "cluster_state:ok") })
	}
}

func (c *Cluster) replicate(replica, master *RedisServer) {
	id, _ := master.MustDo("CLUSTER", "MYID").(string)
	replica.MustDo("CLUSTER", "REPLICATE", id)
	replica.await("follow "+master.addr, replica.linkUp)
}

func (c *Cluster) nodes() []*RedisServer {
	return append(append([]*RedisServer{}, c.Masters...), c.Replicas...)
}

// Addrs are the addresses of all nodes, masters first.
func (c *Cluster) Addrs() []string { return addrs(c.nodes()) }

func addrs(servers []*RedisServer) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.addr)
	}
	return list
}
