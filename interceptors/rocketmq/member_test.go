package rocketmqsource

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// TestFrozenBrokersHoldUpNoHeartbeat: brokers that take requests and answer none cost the
// time of one, however many they and the topics are: members would expire else.
func TestFrozenBrokersHoldUpNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 12
		i := &Source{name: "src", log: slog.New(slog.DiscardHandler)}
		i.settings.cluster.Timeout = 3 * time.Second
		i.settings.cluster.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			return ours, nil
		}
		routes := map[string]*rocketmq.Route{}
		m := newMember(i, func(error) {})
		defer m.pool.close()
		for n := range count {
			topic, broker := fmt.Sprint("t", n), fmt.Sprint("b", n)
			i.settings.topics = append(i.settings.topics, topic)
			r := &rocketmq.Route{Queues: []rocketmq.QueueData{{Broker: broker, Read: 1, Perm: rocketmq.PermRead | rocketmq.PermWrite}}}
			m.pool.brokers[broker] = broker + ":1"
			routes[topic] = r
		}
		i.settings.cluster.NameServers = []string{"frozen:1"}
		began := time.Now()
		if err := m.heartbeat(t.Context(), routes); err == nil || time.Since(began) != i.settings.cluster.Timeout {
			t.Errorf("heartbeats took %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if err := m.share(t.Context()); err == nil || time.Since(began) != i.settings.cluster.Timeout {
			t.Errorf("sharing took %s: %v", time.Since(began), err)
		}
	})
}
