//go:build unix

package servers

import (
	"io"
	"os"
	"sync"
)

// shared is what the tests of one process have in common. It is package state
// because tests have no other place to keep what outlives them.
var shared sharedHost

// sharedHost owns the shared servers in place of a test. A failure to start one ends
// the test that asked.
type sharedHost struct {
	mu     sync.Mutex
	host   *Host // nil until something is shared
	redis  *RedisServer
	rabbit *RabbitMQServer
	kafka  *KafkaCluster
	rocket *RocketMQCluster
}

// Main wraps a testing.M, to end shared servers after the tests:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m).Run()) }
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Main(m)) }
//
// Without it, shared servers end with the process (on Linux), and leave their
// directories.
func Main(m interface{ Run() int }) interface{ Run() int } { return mainRun{m} }

type mainRun struct{ tests interface{ Run() int } }

func (m mainRun) Run() int {
	defer shared.close()
	return m.tests.Run()
}

// SharedRedis returns a Redis that the tests of this process share, emptied for
// this one, or that of DELAYBRIDGE_TEST_REDIS. Tests that use it can't run in
// parallel to each other, and may neither stop it nor leave it configured
// otherwise.
func SharedRedis(t TB) *RedisServer {
	t.Helper()
	if external("DELAYBRIDGE_TEST_REDIS") != nil {
		return Redis(t, RedisOptions{})
	}
	server := share(t, &shared.redis, func(t TB) *RedisServer { return Redis(t, RedisOptions{}) })
	own := *server
	own.t = t
	own.FlushAll()
	return &own
}

// SharedRabbitMQ returns a RabbitMQ that the tests of this process share. Each
// has names of its own, stops nothing, and ends no alarm but its own.
func SharedRabbitMQ(t TB) *RabbitMQServer {
	t.Helper()
	own := *share(t, &shared.rabbit, RabbitMQ)
	own.t = t
	return &own
}

// SharedKafka returns a Kafka of one node that the tests of this process share.
// Each has topics of its own and stops nothing.
func SharedKafka(t TB) *KafkaCluster {
	t.Helper()
	cluster := share(t, &shared.kafka, func(t TB) *KafkaCluster { return Kafka(t, KafkaOptions{}) })
	return &KafkaCluster{t: t, nodes: cluster.nodes, addrs: cluster.addrs, topics: map[string]int{}}
}

// SharedRocketMQ returns a RocketMQ that the tests of this process share. Each
// has topics of its own and stops nothing.
func SharedRocketMQ(t TB) *RocketMQCluster {
	t.Helper()
	own := *share(t, &shared.rocket, func(t TB) *RocketMQCluster { return RocketMQ(t, RocketMQOptions{}) })
	own.t = t
	return &own
}

// share starts what slot holds at its first use. If that ends the test, what
// was started so far is ended with the process, and the next use tries again.
func share[S any](t TB, slot **S, start func(TB) *S) *S {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.host == nil {
		host, err := NewHost("shared", io.Discard)
		if err != nil {
			t.Fatalf("%v", err)
		}
		shared.host = host
	}
	if *slot == nil {
		*slot = start(&sharedTB{TB: t, host: shared.host})
	}
	return *slot
}

func (h *sharedHost) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host != nil {
		h.host.Close()
		os.RemoveAll(h.host.Dir())
	}
	h.host, h.redis, h.rabbit, h.kafka, h.rocket = nil, nil, nil, nil, nil
}

// sharedTB reports to a test but cleans up with the process.
type sharedTB struct {
	TB
	host *Host
}

func (t *sharedTB) Cleanup(f func()) { t.host.Cleanup(f) }
func (t *sharedTB) TempDir() string  { return t.host.TempDir() }
