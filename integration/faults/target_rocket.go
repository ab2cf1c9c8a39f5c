//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// rocketTarget is a RocketMQ whose broker can be started with other settings.
type rocketTarget struct {
	run     *run
	cluster *servers.RocketMQCluster
	unsafe  []unsafeTime

	mu       sync.Mutex
	last     time.Time       // when a message came
	seen     map[string]bool // by queue and offset
	consumer rocketmq.PushConsumer
}

// unsafeTime is a time in which the broker stored with less safety than it was
// asked for, and said so: of some messages, or of each.
type unsafeTime struct {
	what     string
	from, to time.Time
	each     bool
}

const rocketQueues = 4

// rocketSinks delivers to a RocketMQ 4: version 5 takes a message without a word
// where a master that is to wait for its slave has none.
func rocketSinks(r *run) string {
	rlog.SetLogLevel("fatal") // the library has one log for the process
	cluster := servers.RocketMQ(r, servers.RocketMQOptions{Version: servers.RocketMQ4})
	cluster.CreateTopic("orders", rocketQueues)
	k := &rocketTarget{run: r, cluster: cluster, seen: map[string]bool{}}
	r.rocket = k
	k.follow()
	r.tails.Go(k.awaitEnd)
	return fmt.Sprintf(`out: {type: rocketmq, timeout: 5s, config: {name_servers: [%q]}}`, cluster.NameServers()[0])
}

// restart ends the broker, in order or not, and starts it with more settings. The
// consumer is recreated, as the library's takes long to notice.
func (k *rocketTarget) restart(end func(), settings ...string) {
	end()
	k.cluster.Configure(settings...)
	k.cluster.Broker().Start()
	k.follow()
}

// follow reads the topic from its beginning. What was read before is known by its
// queue and offset.
func (k *rocketTarget) follow() {
	if k.consumer != nil {
		k.run.harmIf(k.consumer.Shutdown())
	}
	name := fmt.Sprintf("faults-%d", time.Now().UnixNano())
	c, err := rocketmq.NewPushConsumer(consumer.WithGroupName(name), consumer.WithInstance(name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver(k.cluster.NameServers())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err == nil {
		err = c.Subscribe("orders", consumer.MessageSelector{}, k.take)
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		k.run.Fatalf("read from rocketmq: %v", err)
	}
	k.consumer = c
}

func (k *rocketTarget) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		place := fmt.Sprint(m.Queue.QueueId, "/", m.QueueOffset)
		if k.seen[place] {
			continue
		}
		k.seen[place], k.last = true, time.Now()
		k.run.land(rocketLanding(m))
	}
	return consumer.ConsumeSuccess, nil
}

// rocketLanding leaves out the properties that are RocketMQ's own: those are in
// capitals.
func rocketLanding(m *primitive.MessageExt) landing {
	l := landing{topic: m.Topic, key: m.GetShardingKey(), body: string(m.Body), stored: time.UnixMilli(m.StoreTimestamp)}
	for name, value := range m.GetProperties() {
		if name != strings.ToUpper(name) {
			l.headers = append(l.headers, header{name, &value})
		}
	}
	l.headers = sorted(l.headers)
	return l
}

const rocketQuiet = time.Second

// awaitEnd waits after the run until nothing more comes.
func (k *rocketTarget) awaitEnd() {
	<-k.run.over
	for {
		k.mu.Lock()
		quiet := time.Since(k.last) > rocketQuiet
		k.mu.Unlock()
		if quiet {
			k.run.harmIf(k.consumer.Shutdown())
			return
		}
		time.Sleep(rocketQuiet / 10)
	}
}
