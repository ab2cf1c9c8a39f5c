//go:build unix

package rocketmq

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const (
	frozenFor = 12 * time.Second        // longer than a timeout, avoidFor and the next try
	prompt    = 1500 * time.Millisecond // what takes longer has waited for the frozen broker
)

// TestFrozenBrokerHoldsUpItsOwn: while one of two brokers is stopped, with its
// connections open, Delivers to the other go on. What is for the frozen one alone
// waits for one timeout and then goes back at once, without an attempt spent, and
// what any broker may have goes to the other.
func TestFrozenBrokerHoldsUpItsOwn(t *testing.T) {
	well := servers.RocketMQ(t, servers.RocketMQOptions{})
	ill := servers.RocketMQ(t, servers.RocketMQOptions{Join: well, Config: []string{"brokerName=broker-b"}})
	s := openSink(t, configAt(well.NameServers()[0]))
	defer s.Close()
	for topic, brokers := range map[string][]*servers.RocketMQCluster{"well": {well}, "ill": {ill}, "both": {well, ill}} {
		for _, broker := range brokers {
			broker.CreateTopic(topic, realQueues)
		}
		awaitDelivery(t, s, topic)
	}
	ill.Broker().Pause()
	u := underway{t: t, sink: s, began: time.Now(), count: map[string]int{}}
	for n := range defaultWorkers + 2 {
		u.deliver(message(n, topic("ill"), key("k")))
		u.deliver(message(n, topic("both")))
	}
	u.deliver(messages(3, topic("well"), key("k"))...)
	u.group.Wait()
	t.Log(u.count)
	for _, word := range []string{"well [ok]", "both [ok]", "ill [unknown]", "ill [topic_blocked]"} {
		if u.count[word] == 0 {
			t.Errorf("no Deliver for %s", word)
		}
	}
	ill.Broker().Resume()
	awaitDelivery(t, s, "ill")
}

// underway is Delivers that go on while a broker is frozen.
type underway struct {
	t     *testing.T
	sink  *Sink
	began time.Time
	group sync.WaitGroup
	mu    sync.Mutex
	count map[string]int // by topic and results
}

// deliver has a batch delivered again and again.
func (u *underway) deliver(batch ...*core.Message) {
	u.group.Go(func() {
		for time.Since(u.began) < frozenFor {
			start := time.Now()
			err := u.sink.Deliver(u.t.Context(), batch)
			u.note(batch[0].Topic, start.Sub(u.began), time.Since(start), err)
			pause(u.t.Context())
		}
	})
}

func (u *underway) note(topic string, at, took time.Duration, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[fmt.Sprint(topic, " ", classes(err)[:1])]++
	known := topic != "well" && at < 2*maxSendTimeout // one timeout makes it known
	if took > prompt && !known || err != nil && topic == "well" {
		u.t.Errorf("topic %s: after %s Deliver took %s: %v", topic, at, took, err)
	}
}

// awaitDelivery delivers to all queues of a topic.
func awaitDelivery(t *testing.T, s *Sink, name string) {
	t.Helper()
	if err := poll.Succeeds(time.Minute, func() error {
		return s.Deliver(t.Context(), messages(4*realQueues*minLoose, topic(name)))
	}); err != nil {
		t.Fatalf("topic %s: %v", name, err)
	}
}
