package amqp

import (
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func asPlugin() plugin.Definition {
	return plugin.Definition{Name: "amqp", Version: "test", Checks: true, TellsHealth: true, Open: Open}
}

func TestConformanceAsPlugin(t *testing.T) {
	r := startRabbit(t)
	r.AddUser("suite", "secret", ".*", "^(?!forbidden)", ".*")
	kit := r.kitOf(t, nil, func(t testing.TB, config map[string]any, url string) core.Sink {
		return plugintest.Open(t, "amqp", configFor(t, config, url))
	})
	kit.Rounds = pluginRounds
	sinktest.Run(t, kit)
}

// pluginRounds is lower than usual: each starts a process.
const pluginRounds = 10
