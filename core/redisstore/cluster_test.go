package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/storetest"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// strict marks every script so that Redis refuses a key that was not declared,
// even on a cluster of one node, which otherwise lets it pass.
func strict() *scripts {
	s := newScripts()
	for _, one := range s.all() {
		changes := one.changes
		*one = *newScript(one.name, "#!lua\n"+one.source)
		one.changes = changes
	}
	return s
}

func TestClusterOfOneNodeWithStrictScripts(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 1)
	h := harness(func(t *testing.T) Config { return withOutbox(clusterConfig(t, cluster)) })
	lenient := h.Open
	h.Open = func(t *testing.T, c storetest.Config) core.Store {
		s := lenient(t, c).(*Store)
		s.scripts = strict()
		if err := s.scripts.load(t.Context(), s.client); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("suite", func(t *testing.T) { storetest.Run(t, h) })
	t.Run("model", func(t *testing.T) { storetest.Model(t, h) })
}

func TestClusterOfThreeMasters(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 3)
	storetest.Run(t, harness(func(t *testing.T) Config { return clusterConfig(t, cluster) }))
}

func clusterConfig(t *testing.T, c *servers.Cluster) Config {
	config := Config{Cluster: true, Prefix: fmt.Sprintf("t%d", prefixes.Add(1)), Lease: suiteLease}
	for _, node := range c.Masters {
		config.Addrs = append(config.Addrs, node.Addr())
	}
	return config
}

func TestClusterWaitsForReplicas(t *testing.T) {
	t.Parallel()
	cluster := servers.FailoverCluster(t, 3, 1, servers.Calm)
	config := clusterConfig(t, cluster)
	config.Durability, config.DurabilityTimeout = DurabilityReplicated, time.Minute
	s := open(t, config)
	config.DurabilityTimeout = 2 * time.Second
	impatient := open(t, config)
	for _, r := range s.Park(t.Context(), spread(48)...) {
		if r.Err != nil || r.Durability != DurabilityReplicated {
			t.Fatalf("park: %+v", r)
		}
	}
	cluster.Replicas[0].Pause()
	defer cluster.Replicas[0].Resume()
	failed := 0
	for _, r := range impatient.Park(t.Context(), spread(48)...) {
		if r.Err != nil {
			failed++
		}
	}
	if failed == 0 || failed == 48 {
		t.Errorf("%d of 48 messages over three masters failed with one replica unreachable, want some", failed)
	}
}

// spread makes messages that fall into all buckets.
func spread(n int) []*core.Message {
	messages := make([]*core.Message, n)
	for i := range messages {
		messages[i] = &core.Message{Sink: "orders", Topic: "t", Generated: true, Key: []byte(fmt.Sprint("key", i)), Delay: time.Hour}
	}
	return messages
}
