//go:build unix

package rocketmqdelay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/bridgetest"
	"github.com/delaybridge/delaybridge/client/rocketmqdelay"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	rocketsink "github.com/delaybridge/delaybridge/sinks/rocketmq"
)

// fixture is a RocketMQ, a bridge before it, a producer with the interceptor,
// and what arrives in one topic.
type fixture struct {
	*testing.T
	ctx      context.Context
	topic    string
	producer rocketmq.Producer
	bridge   *client.Client
	arrivals chan arrival
	seen     map[string]bool // by body
}

type arrival struct {
	*primitive.MessageExt
	at time.Time
}

// namespace is the producer's; the consumer and the sink see it in the topic.
func newFixture(t *testing.T, namespace string) *fixture {
	t.Helper()
	cluster := servers.SharedRocketMQ(t)
	name := fmt.Sprintf("t%d", rand.Uint64())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, topic: name, arrivals: make(chan arrival, 100), seen: make(map[string]bool)}
	topic := name
	if namespace != "" {
		topic = namespace + "%" + name
	}
	cluster.CreateTopic(topic, 1)
	f.bridge = bridgetest.Start(t, "rocketmq", rocketsink.Open, map[string]any{"name_servers": cluster.NameServers(), "namespace": namespace})
	f.openSink()
	f.produce(cluster.NameServers(), name, namespace)
	f.consume(cluster.NameServers(), name, topic)
	f.next() // now the consumer is there
	return f
}

// openSink has the bridge deliver one message. The sink sets the client
// library's log at its first, which is without a lock and must not be while
// another producer works.
func (f *fixture) openSink() {
	f.Helper()
	receipt, err := f.bridge.Publish(f.ctx, client.Message{Topic: f.topic, Body: []byte("first"), Delay: client.Now})
	for state := receipt.State; err == nil && state != client.Delivered; time.Sleep(10 * time.Millisecond) {
		var entry client.Entry
		entry, err = f.bridge.Get(f.ctx, client.Ref{ID: receipt.ID})
		state = entry.State
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) produce(nameServers []string, name, namespace string) {
	f.Helper()
	options := []producer.Option{producer.WithGroupName("p" + name), producer.WithInstanceName("p" + name),
		producer.WithNsResolver(primitive.NewPassthroughResolver(nameServers)),
		producer.WithInterceptor(rocketmqdelay.Intercept(f.bridge, rocketmqdelay.Options{Sink: "rocketmq", Namespace: namespace}))}
	if namespace != "" {
		options = append(options, producer.WithNamespace(namespace))
	}
	p, err := rocketmq.NewProducer(options...)
	if err != nil {
		f.Fatal(err)
	}
	if err := p.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { p.Shutdown() })
	f.producer = p
}

func (f *fixture) consume(nameServers []string, name, topic string) {
	f.Helper()
	c, err := rocketmq.NewPushConsumer(consumer.WithGroupName("c"+name), consumer.WithInstance("c"+name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver(nameServers)), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		f.Fatal(err)
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			f.arrivals <- arrival{m, time.Now()}
		}
		return consumer.ConsumeSuccess, nil
	}); err != nil {
		f.Fatal(err)
	}
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Shutdown() })
}

// next returns what arrives next. The messages of a test differ in their bodies:
// what comes again was sent again, as no answer came within three seconds.
func (f *fixture) next() arrival {
	f.Helper()
	for {
		select {
		case a := <-f.arrivals:
			if body := string(a.Body); !f.seen[body] {
				f.seen[body] = true
				return a
			}
		case <-f.ctx.Done():
			f.Fatal("nothing arrived")
		}
	}
}

// message is one with all that is kept.
func (f *fixture) message(body string, properties ...string) *primitive.Message {
	m := primitive.NewMessage(f.topic, []byte(body))
	m.WithTag("tag").WithKeys([]string{"k1", "k2"}).WithShardingKey("shard")
	m.WithProperty("trace", "a=1; b=é")
	for n := 0; n < len(properties); n += 2 {
		m.WithProperty(properties[n], properties[n+1])
	}
	return m
}

// check compares what arrived, less what the bridge and RocketMQ have added.
func (f *fixture) check(want *primitive.Message, got arrival, delayed bool) {
	f.Helper()
	if string(got.Body) != string(want.Body) {
		f.Errorf("the body is %q, want %q", got.Body, want.Body)
	}
	wanted, arrived := want.GetProperties(), got.GetProperties()
	if delayed {
		wanted[primitive.PropertyKeys] = arrived[core.HeaderID] + " k1 k2"
	}
	added := map[string]bool{core.HeaderID: true, core.HeaderAttempt: true, core.HeaderDeliverAt: true, "__SHARDINGKEY": true}
	own := func(name, _ string) bool {
		return added[name] || strings.HasPrefix(strings.ToLower(name), "delaybridge") || strings.HasPrefix(name, "TIMER_") || name == "DELAY" ||
			name == "UNIQ_KEY" || name == "MIN_OFFSET" || name == "MAX_OFFSET" || name == "CLUSTER" || name == "CONSUME_START_TIME" || name == "INNER_NUM" || name == "MSG_REGION" || name == "TRACE_ON"
	}
	for name := range arrived {
		if delayed && (strings.HasPrefix(name, "TIMER_") || name == "DELAY") {
			f.Errorf("the property %s was delivered", name)
		}
	}
	maps.DeleteFunc(wanted, own)
	maps.DeleteFunc(arrived, own)
	if diff := cmp.Diff(wanted, arrived); diff != "" {
		f.Error(diff)
	}
}

// checkAll is check for messages that differ in their bodies, as a consumer has
// no order. It returns what arrived in the order of want.
func (f *fixture) checkAll(delayed bool, want ...*primitive.Message) []arrival {
	f.Helper()
	byBody := make(map[string]arrival)
	for range want {
		a := f.next()
		byBody[string(a.Body)] = a
	}
	arrived := make([]arrival, len(want))
	for n, m := range want {
		got, ok := byBody[string(m.Body)]
		if !ok {
			f.Fatalf("%q did not arrive, but %q", m.Body, slices.Collect(maps.Keys(byBody)))
		}
		f.check(m, got, delayed)
		arrived[n] = got
	}
	return arrived
}

// TestDelayedAndOthers: what has no delay arrives as it was, the rest later,
// never early, and without its scheduling properties.
func TestDelayedAndOthers(t *testing.T) {
	f := newFixture(t, "")
	plain := f.message("plain")
	result, err := f.producer.SendSync(f.ctx, plain)
	if err != nil || result.Status != primitive.SendOK || result.MessageQueue.BrokerName == "" {
		t.Fatalf("got %v, %v", result, err)
	}
	f.check(plain, f.next(), false)
	const delay = 1500 * time.Millisecond
	began := time.Now()
	sent := []struct {
		*primitive.Message
		due time.Time
	}{
		{f.message("level", "DELAY", "1"), began.Add(time.Second)},
		{f.message("native", "delaybridge_delay", delay.String(), "delaybridge-id", "mine"), began.Add(delay)},
		{f.message("timer\x00\xff", "TIMER_DELAY_MS", "2000"), began.Add(2 * time.Second)},
		{f.message("", "TIMER_DELIVER_MS", strconv.FormatInt(began.Add(3*time.Second).UnixMilli(), 10)), time.UnixMilli(began.Add(3 * time.Second).UnixMilli())},
	}
	for n, m := range sent {
		result, err := f.producer.SendSync(f.ctx, m.Message)
		if err != nil || result.Status != primitive.SendOK || result.MsgID == "" || (n == 1) != (result.MsgID == "mine") || result.String() == "" {
			t.Fatalf("%d: got %v, %v", n, result, err)
		}
		if _, err := f.bridge.Get(f.ctx, client.Ref{ID: result.MsgID}); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	for n, got := range f.checkAll(true, sent[0].Message, sent[1].Message, sent[2].Message, sent[3].Message) {
		if m := sent[n]; got.at.Before(m.due) {
			t.Errorf("%q came %s early", m.Body, m.due.Sub(got.at))
		}
	}
}

// TestPublishedAgain: a consumer sends what it got once more, with all properties
// that were on it, those of the broker included, and a new delay.
func TestPublishedAgain(t *testing.T) {
	f := newFixture(t, "")
	if _, err := f.producer.SendSync(f.ctx, f.message("once", "delaybridge-delay", "10ms")); err != nil {
		t.Fatal(err)
	}
	again := primitive.NewMessage(f.topic, []byte("again"))
	again.WithProperties(f.next().GetProperties())
	again.WithProperty("delaybridge-delay", "10ms")
	if _, err := f.producer.SendSync(f.ctx, again); err != nil {
		t.Fatal(err)
	}
	got := f.next()
	for name, want := range map[string]string{core.HeaderHop: "1", "trace": "a=1; b=é", "TAGS": "tag", "SHARDING_KEY": "shard"} {
		if value := got.GetProperty(name); string(got.Body) != "again" || value != want {
			t.Errorf("%q arrived, its %s is %q, want %q", got.Body, name, value, want)
		}
	}
}

func TestOneWay(t *testing.T) {
	f := newFixture(t, "")
	for name, properties := range map[string][]string{"now": nil, "later": {"delaybridge-delay", "1ms"}} {
		m := f.message(name, properties...)
		if err := f.producer.SendOneWay(f.ctx, m); err != nil {
			t.Fatal(err)
		}
		f.check(m, f.next(), properties != nil)
	}
	if err := f.producer.SendOneWay(f.ctx, f.message("x", "delaybridge-delay", "5")); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestBatches(t *testing.T) {
	f := newFixture(t, "")
	plain := []*primitive.Message{f.message("1"), f.message("")}
	if _, err := f.producer.SendSync(f.ctx, plain...); err != nil {
		t.Fatal(err)
	}
	f.checkAll(false, plain...)
	delayed := []*primitive.Message{f.message("3", "delaybridge-delay", "10ms", "delaybridge-id", "three"), f.message("\x00\xff", "TIMER_DELAY_MS", "300")}
	result, err := f.producer.SendSync(f.ctx, delayed...)
	if err != nil || !strings.HasPrefix(result.MsgID, "three,") {
		t.Fatalf("got %v, %v", result, err)
	}
	f.checkAll(true, delayed...)
	if _, err := f.producer.SendSync(f.ctx, plain[0], delayed[0]); !errors.Is(err, rocketmqdelay.ErrMixed) {
		t.Errorf("mixed: got %v", err)
	}
	_, err = f.producer.SendSync(f.ctx, f.message("5", "delaybridge-delay", "1ms"), f.message("6", "delaybridge-delay", "1ms", "delaybridge-sink", "none"))
	if e, ok := errors.AsType[client.BatchError](err); !ok || e[0] != nil || !errors.Is(e[1], client.ErrInvalid) {
		t.Errorf("half: got %v", err)
	}
	if got := f.next(); string(got.Body) != "5" {
		t.Errorf("got %q", got.Body)
	}
}

// TestRequestsNeedAnotherProducer: if this fails, the library has fixed it, and
// the package documentation is to say so.
func TestRequestsNeedAnotherProducer(t *testing.T) {
	f := newFixture(t, "")
	if reply, err := f.producer.Request(f.ctx, 10*time.Second, f.message("1")); reply != nil || err != nil {
		t.Errorf("got %v, %v", reply, err)
	}
	f.next() // it was sent
	// RequestAsync is not tried: its two sends race inside the library.
}

// TestWhatInterceptorsCantDo is refused where the message has a delay, and goes
// on where it has none.
func TestWhatInterceptorsCantDo(t *testing.T) {
	f := newFixture(t, "")
	called := make(chan error, 1)
	callback := func(_ context.Context, _ *primitive.SendResult, err error) { called <- err }
	if err := f.producer.SendAsync(f.ctx, callback, f.message("async")); err != nil {
		t.Fatal(err)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
	f.next()
	if err := f.producer.SendAsync(f.ctx, callback, f.message("x", "DELAY", "1")); !errors.Is(err, rocketmqdelay.ErrAsync) {
		t.Errorf("got %v", err)
	}
	if _, err := f.producer.Request(f.ctx, time.Second, f.message("x", "DELAY", "1")); !errors.Is(err, rocketmqdelay.ErrAsync) {
		t.Errorf("got %v", err)
	}
	if _, err := f.producer.SendSync(f.ctx, f.message("x", "DELAY", "1", "TRAN_MSG", "true")); !errors.Is(err, rocketmqdelay.ErrTransaction) {
		t.Errorf("got %v", err)
	}
	flagged := f.message("x", "DELAY", "1")
	flagged.Flag = 1
	if _, err := f.producer.SendSync(f.ctx, flagged); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for e, err := range f.bridge.List(f.ctx, client.Query{}) {
		t.Errorf("stored is %+v, %v", e, err)
	}
}

func TestNamespace(t *testing.T) {
	f := newFixture(t, "ns")
	if _, err := f.producer.SendSync(f.ctx, f.message("x", "delaybridge-delay", "1ms")); err != nil {
		t.Fatal(err)
	}
	if got := f.next(); string(got.Body) != "x" {
		t.Errorf("got %q", got.Body)
	}
}
