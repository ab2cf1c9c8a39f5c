//go:build unix

package rocketmq

import (
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func asPlugin() plugin.Definition {
	return plugin.Definition{Name: "rocketmq", Version: "test", Checks: true, TellsHealth: true, Open: Open}
}

func TestConformanceAsPlugin(t *testing.T) {
	target := &realCluster{RocketMQCluster: servers.RocketMQ(t, servers.RocketMQOptions{})}
	nameServer := target.nameServer(t)
	kit := target.kit(t, nameServer)
	kit.Open = func(t testing.TB) core.Sink {
		return plugintest.Open(t, "rocketmq", configAt(nameServer))
	}
	kit.Rounds = pluginRounds
	sinktest.Run(t, kit)
}

// pluginRounds is lower than usual: each starts a process.
const pluginRounds = 10
