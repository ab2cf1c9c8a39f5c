//go:build unix

package servers_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestRocketMQ(t *testing.T) {
	t.Parallel()
	for _, version := range []string{servers.RocketMQ4, servers.RocketMQ5} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cluster := servers.RocketMQ(t, servers.RocketMQOptions{Version: version})
			cluster.CreateTopic("kept", 4)
			addr := cluster.BrokerAddr()
			cluster.Broker().Kill()
			if answers(addr) {
				t.Error("answers after Kill")
			}
			cluster.Broker().Start()
			poll.Until(t, patience, "after kill and start of the broker, the topic is there", func() bool { return cluster.HasTopic("kept") })
			if cluster.HasTopic("other") {
				t.Error("there is a topic that nobody made")
			}
			cluster.NameServer().Restart()
			if !answers(cluster.NameServers()[0]) {
				t.Error("after its restart, the name server does not answer")
			}
		})
	}
}

func TestRocketMQAdvertisesAProxy(t *testing.T) {
	t.Parallel()
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{AdvertiseHost: "127.0.0.2"})
	cluster.CreateTopic("t", 1)
	if got := cluster.BrokerAddr(); !strings.HasPrefix(got, "127.0.0.2:") {
		t.Errorf("advertises %s", got)
	}
}
