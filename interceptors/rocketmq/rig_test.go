//go:build unix

package rocketmqsource

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// rig is a RocketMQ with topics of its own, and a store that tells what is
// parked.
type rig struct {
	*servers.RocketMQCluster
	t     testing.TB
	wire  *pool // the test's own connections
	store *sourcetest.Store
	sinks []*core.Dispatcher
	name  string
}

var rigs atomic.Int64

func newRig(t testing.TB) *rig { return rigOf(t, servers.SharedRocketMQ(t)) }

func rigOf(t testing.TB, server *servers.RocketMQCluster) *rig {
	t.Helper()
	c := &rocketmq.Cluster{NameServers: server.NameServers(), Timeout: 20 * time.Second, Dial: (&net.Dialer{}).DialContext}
	r := &rig{RocketMQCluster: server, t: t, store: sourcetest.NewStore(), wire: newPool(c, nil),
		sinks: []*core.Dispatcher{{Name: "out"}, {Name: "other"}},
		name:  fmt.Sprintf("t%d-%d", time.Now().UnixMilli(), rigs.Add(1))}
	t.Cleanup(r.wire.close)
	return r
}

// topic makes a topic whose name ends in suffix.
func (r *rig) topic(suffix string, queues int) string {
	r.t.Helper()
	r.CreateTopic(r.name+suffix, queues)
	return r.name + suffix
}

// source makes a source that reads from topics and parks for "out" and the
// topic "orders", unless more says otherwise.
func (r *rig) source(topics []string, more map[string]any) *Source {
	r.t.Helper()
	made, err := New("src", r.config(topics, more), r.interceptor(), r.logger())
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// config has a timeout that a machine which stands still keeps: what it cuts off
// moves queues, and is read again.
func (r *rig) config(topics []string, more map[string]any) json.RawMessage {
	r.t.Helper()
	c := map[string]any{"name_servers": r.NameServers(), "topics": topics, "group": r.name, "sink": "out", "topic": "orders",
		"request_timeout": "20s"}
	for name, value := range more {
		c[name] = value
	}
	if c["reject_topic"] == nil && c["on_bad_record"] == nil {
		c["on_bad_record"] = "stop"
	}
	raw, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return raw
}

func (r *rig) interceptor() *core.Interceptor {
	return core.NewBridge(r.store, core.Options{}, r.sinks...).Interceptor
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.t.Output(), nil))
}

// running is a source at work.
type running struct {
	*Source
	*sourcetest.Running
}

func (r *rig) run(i *Source) *running { return &running{i, sourcetest.Start(r.t, i.Run)} }

// wait returns what Run returned of its own accord.
func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-r.Ended:
		return r.Err
	case <-time.After(time.Minute):
		t.Fatal("the source goes on")
	}
	return nil
}

// props are properties as they are on the wire; name and value in turn.
func props(texts ...string) string {
	var b strings.Builder
	for n := 0; n < len(texts); n += 2 {
		b.WriteString(texts[n] + "\x01" + texts[n+1] + "\x02")
	}
	return b.String()
}

// send sends one message alone, as clients do, so that the broker acts on what
// its properties ask for.
func (r *rig) send(topic string, queue int, body, properties string) {
	r.t.Helper()
	r.sendFlagged(topic, queue, 0, body, properties)
}

func (r *rig) sendFlagged(topic string, queue, flags int, body, properties string) {
	r.t.Helper()
	r.produce(310, topic, queue, flags, []byte(body), properties, false)
}

// one is a message of a batch.
type one struct{ body, properties string }

// sendBatch sends many at once; on their properties brokers don't act.
func (r *rig) sendBatch(topic string, queue int, messages ...one) {
	r.t.Helper()
	var batch []byte
	for _, m := range messages {
		batch = binary.BigEndian.AppendUint32(batch, uint32(22+len(m.body)+len(m.properties)))
		batch = append(batch, make([]byte, 12)...)
		batch = binary.BigEndian.AppendUint32(batch, uint32(len(m.body)))
		batch = append(batch, m.body...)
		batch = binary.BigEndian.AppendUint16(batch, uint16(len(m.properties)))
		batch = append(batch, m.properties...)
	}
	r.produce(rocketmq.RequestSendBatch, topic, queue, 0, batch, "", true)
}

func (r *rig) produce(code int, topic string, queue, flags int, body []byte, properties string, batch bool) {
	r.t.Helper()
	fields := map[string]string{"a": "test", "b": topic, "c": "TBW102", "d": "4", "e": strconv.Itoa(queue), "f": strconv.Itoa(flags),
		"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": properties, "j": "0", "k": "false", "l": "0", "m": strconv.FormatBool(batch)}
	answer, err := r.wire.ask(context.Background(), r.BrokerAddr(), rocketmq.Command{Code: code, Fields: fields, Body: body}, 0)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		r.t.Fatalf("send to %s: %v", topic, err)
	}
}

// stored is a message as it lies in a topic.
type stored struct {
	record
	property map[string]string
}

// read returns the first want messages of queue 0.
func (r *rig) read(topic string, want int) []stored {
	r.t.Helper()
	var all []stored
	deadline := time.Now().Add(60 * time.Second)
	for next := int64(0); len(all) < want; {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d messages in %s, want %d", len(all), topic, want)
		}
		fields := map[string]string{"consumerGroup": r.name + "-reader", "topic": topic, "queueId": "0", "queueOffset": strconv.FormatInt(next, 10),
			"maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "1000", "subscription": "*", "subVersion": "1", "expressionType": "TAG"}
		answer, err := r.wire.ask(context.Background(), r.BrokerAddr(), rocketmq.Command{Code: rocketmq.RequestPull, Fields: fields}, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if answer.Code != rocketmq.CodeOK {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for rest := answer.Body; len(rest) > 0; {
			var one stored
			if one.record, rest, err = nextRecord(rest); err != nil {
				r.t.Fatal(err)
			}
			one.property = make(map[string]string)
			for left := one.properties; len(left) > 0; {
				var name, value []byte
				name, value, left = nextProperty(left)
				one.property[string(name)] = string(value)
			}
			all, next = append(all, one), one.offset+1
		}
	}
	return all
}

// committed is the group's offset in a queue; -1 is none.
func (r *rig) committed(topic string, queue int) int64 {
	r.t.Helper()
	fields := map[string]string{"consumerGroup": r.name, "topic": topic, "queueId": strconv.Itoa(queue), "setZeroIfNotFound": "false"}
	answer, err := r.wire.ask(context.Background(), r.BrokerAddr(), rocketmq.Command{Code: rocketmq.RequestOffset, Fields: fields}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	if answer.Code == rocketmq.CodeNoOffset {
		return -1
	}
	offset, err := number(answer, "offset")
	if err != nil {
		r.t.Fatal(err)
	}
	return offset
}
