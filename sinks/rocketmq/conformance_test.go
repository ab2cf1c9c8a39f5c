//go:build unix

package rocketmq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	t.Run(servers.RocketMQ4, func(t *testing.T) {
		target := &realCluster{RocketMQCluster: servers.RocketMQ(t, servers.RocketMQOptions{Version: servers.RocketMQ4})}
		sinktest.Run(t, target.kit(t, target.nameServer(t)))
	})
	t.Run(servers.RocketMQ5+" with login", func(t *testing.T) {
		options := servers.RocketMQOptions{Version: servers.RocketMQ5, Config: aclConfig()}
		target := &realCluster{RocketMQCluster: servers.RocketMQ(t, options)}
		sinktest.Run(t, target.kitWithLogin(t, target.nameServer(t)))
	})
}

// realCluster is a real RocketMQ, the broker behind a wire.
type realCluster struct {
	*servers.RocketMQCluster
	wire   *sinktest.Wire
	topics atomic.Int32
}

func (c *realCluster) kit(t *testing.T, nameServer string) sinktest.Kit {
	faults := c.wire.Faults()
	faults.Restart = func(testing.TB) { c.Broker().Kill(); c.Broker().Start() }
	return sinktest.Kit{
		Open:     func(t testing.TB) core.Sink { return openAt(t, nameServer) },
		NewTopic: c.newTopic,
		Consume:  c.consume,
		Can:      []sinktest.Capability{sinktest.Headers, sinktest.EmptyBody, sinktest.Ordered, sinktest.Lanes},
		MaxBody:  defaultMaxMessage - bodyRoom,
		Delays: []core.Header{{Name: "DELAY", Value: []byte("18")}, {Name: "TIMER_DELAY_SEC", Value: []byte("3600")},
			{Name: "TIMER_DELAY_MS", Value: []byte("3600000")}, {Name: "TIMER_DELIVER_MS", Value: []byte("9999999999999")}},
		Hostile:         hostile(),
		NegativeConfirm: &sinktest.Refusal{Topic: c.readOnlyTopic, Class: core.TopicBlocked},
		MissingTopic:    &sinktest.Refusal{Topic: func(testing.TB) string { return c.name() }, Class: core.TopicBlocked},
		Faults:          faults,
		ReadTimeout:     60 * time.Second,
		// The library leaves a connection to the name server behind for each
		// producer, for up to two minutes (apache/rocketmq-client-go#728).
		Rounds: 2,
		Leaks: append(clientLeaks(), remoting+"receiveResponse",
			"github.com/delaybridge/delaybridge/sinks/rocketmq.(*server).read"), // its other end
	}
}

// hostile are messages with what only RocketMQ gives a meaning.
func hostile() []*core.Message {
	messages := []*core.Message{{Topic: "%RETRY%g"}, {Topic: "%DLQ%g"}, {Topic: "RMQ_SYS_TRACE_TOPIC"}, {Topic: "SCHEDULE_TOPIC_XXXX"}}
	for _, name := range []string{"TRAN_MSG", "KEYS", "UNIQ_KEY", "MSG_TYPE", "REAL_TOPIC", "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"} {
		messages = append(messages, &core.Message{Headers: []core.Header{{Name: name, Value: []byte("true")}}})
	}
	return messages
}

func openAt(t testing.TB, nameServer string, settings ...string) core.Sink {
	return openSink(t, configAt(nameServer, settings...))
}

// configAt has a timeout just below that of the suite's kit, so that the sink
// is the first to give up.
func configAt(nameServer string, settings ...string) json.RawMessage {
	settings = append(settings, fmt.Sprintf(`"name_servers":[%q],"send_timeout":"2500ms"`, nameServer))
	return json.RawMessage("{" + strings.Join(settings, ",") + "}")
}

// nameServer makes the wire and returns the address of a name server that
// stands before the real one and sends clients to the broker through it.
func (c *realCluster) nameServer(t *testing.T) string {
	c.wire = sinktest.NewWire(t)
	broker := c.BrokerAddr()
	near := c.wire.Addr(t, broker)
	s := serve(t, "127.0.0.1:0", func(conn net.Conn, request rocketmq.Command) bool {
		answer, err := ask(t.Context(), c.NameServers()[0], request)
		if err == nil {
			reply(conn, request, answer.Code, answer.Remark, bytes.ReplaceAll(answer.Body, []byte(broker), []byte(near)))
		}
		return err == nil
	})
	return s.address()
}

func (c *realCluster) name() string { return fmt.Sprint(aclTopics, c.topics.Add(1)) }

const realQueues = 4

func (c *realCluster) newTopic(testing.TB) string {
	topic := c.name()
	c.CreateTopic(topic, realQueues)
	return topic
}

// readOnlyTopic makes a topic that operators have closed to producers.
func (c *realCluster) readOnlyTopic(t testing.TB) string {
	topic := c.newTopic(t)
	queues := strconv.Itoa(realQueues)
	c.mustAsk(t, rocketmq.Command{Code: 17, Fields: map[string]string{"topic": topic, "defaultTopic": "TBW102", "perm": "4",
		"readQueueNums": queues, "writeQueueNums": queues, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}})
	for {
		answer, err := ask(t.Context(), c.NameServers()[0], rocketmq.Command{Code: rocketmq.RequestRoute, Fields: map[string]string{"topic": topic}})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(answer.Body, []byte(`"perm":4`)) {
			return topic
		}
		pause(t.Context())
	}
}

// consume reads the queues of a topic in turn, from their beginnings.
func (c *realCluster) consume(t testing.TB, topic string) sinktest.Reader {
	broker := c.BrokerAddr()
	var offsets [realQueues]int64
	var found []sinktest.Received
	return func(ctx context.Context) (sinktest.Received, error) {
		for queue := 0; len(found) == 0; queue = (queue + 1) % realQueues {
			messages, err := pull(ctx, broker, topic, queue, offsets[queue])
			if err != nil {
				return sinktest.Received{}, atDeadline(ctx, err)
			}
			for _, m := range messages {
				found = append(found, received(m, queue))
			}
			offsets[queue] += int64(len(messages))
			if queue == realQueues-1 && len(found) == 0 {
				pause(ctx)
			}
		}
		first := found[0]
		found = found[1:]
		return first, nil
	}
}

// atDeadline waits for the context if its end is near and the cause of err.
func atDeadline(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 10*time.Millisecond {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func pause(ctx context.Context) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask asks a server without credentials.
func ask(ctx context.Context, address string, request rocketmq.Command) (*rocketmq.Command, error) {
	c := rocketmq.Cluster{Timeout: time.Minute, Dial: (&net.Dialer{}).DialContext}
	return c.AskOnce(ctx, address, request)
}

// pull asks the broker as a consumer does.
func pull(ctx context.Context, broker, topic string, queue int, offset int64) ([]*primitive.MessageExt, error) {
	answer, err := ask(ctx, broker, rocketmq.Command{Code: rocketmq.RequestPull, Fields: map[string]string{
		"consumerGroup": "conformance", "topic": topic, "queueId": strconv.Itoa(queue),
		"queueOffset": strconv.FormatInt(offset, 10), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
		"suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}})
	switch {
	case err != nil:
		return nil, err
	case answer.Code == rocketmq.CodeNoMessage, answer.Code == rocketmq.CodeOffsetMoved:
		return nil, nil
	case answer.Code != rocketmq.CodeOK:
		return nil, errors.New("pull: " + answer.Remark)
	}
	return primitive.DecodeMessage(answer.Body), nil
}

// received leaves out the properties that are not headers.
func received(m *primitive.MessageExt, queue int) sinktest.Received {
	r := sinktest.Received{Body: m.Body, Lane: strconv.Itoa(queue)}
	for name, value := range m.GetProperties() {
		if !isReserved(name) {
			r.Headers = append(r.Headers, core.Header{Name: name, Value: []byte(value)})
		}
	}
	return r
}
