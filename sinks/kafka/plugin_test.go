//go:build unix

package kafka

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m, asPlugin()).Run()) }

// detour is the plugin's configuration: the addresses that brokers tell lead
// around the wire, so it needs to know the way through.
type detour struct {
	Through map[string]string
	Config  json.RawMessage
}

func asPlugin() plugin.Definition {
	return plugin.Definition{Name: "kafka", Version: "test", Checks: true, TellsHealth: true,
		Open: func(_ context.Context, config json.RawMessage) (core.Sink, error) {
			var d detour
			if err := json.Unmarshal(config, &d); err != nil {
				return nil, err
			}
			s, err := decode(d.Config)
			if err != nil {
				return nil, err
			}
			s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, d.Through[address])
			}
			return newSink(s), nil
		}}
}

func TestConformanceAsPlugin(t *testing.T) {
	c := startCluster(t, servers.KafkaOptions{})
	kit := c.kitOf(t, func(t testing.TB, wire *sinktest.Wire, settings map[string]any) core.Sink {
		d := detour{Through: map[string]string{}, Config: configFor(t, c.Addrs(), settings)}
		for _, address := range c.Addrs() {
			d.Through[address] = wire.Addr(t, address)
		}
		return plugintest.Open(t, "kafka", d)
	})
	kit.Rounds = pluginRounds
	sinktest.Run(t, kit)
}

// pluginRounds is lower than usual: each starts a process.
const pluginRounds = 10
