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
)

// TestFrozenBrokersHoldUpNoHeartbeat: brokers that take requests and answer none cost the
// time of one, however many they and the topics are: members would expire else.
func TestFrozenBrokersHoldUpNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 12
		i := &Source{name: "src", log: slog.New(slog.DiscardHandler)}
		i.settings.requestTimeout = 3 * time.Second
		i.settings.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			return ours, nil
		}
		routes := map[string]*route{}
		m := newMember(i, func(error) {})
		defer m.cluster.close()
		for n := range count {
			topic, broker := fmt.Sprint("t", n), fmt.Sprint("b", n)
			i.settings.topics = append(i.settings.topics, topic)
			r, err := m.cluster.decodeRoute(fmt.Appendf(nil, `{"brokerDatas":[{"brokerName":%q,"brokerAddrs":{0:"%s:1"}}],`+
				`"queueDatas":[{"brokerName":%q,"readQueueNums":1,"perm":6}]}`, broker, broker, broker))
			if err != nil {
				t.Fatal(err)
			}
			routes[topic] = r
		}
		i.settings.nameServers = []string{"frozen:1"}
		began := time.Now()
		if err := m.heartbeat(t.Context(), routes); err == nil || time.Since(began) != i.settings.requestTimeout {
			t.Errorf("heartbeats took %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if err := m.share(t.Context()); err == nil || time.Since(began) != i.settings.requestTimeout {
			t.Errorf("sharing took %s: %v", time.Since(began), err)
		}
	})
}
