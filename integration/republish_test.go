//go:build unix

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// What consumers do who want what they have got once more, later: they publish it
// again, to where delayed messages go. The headers that delivery added stay on it
// or not.

const (
	hops     = 3
	hopDelay = 300 * time.Millisecond
)

// hopHeaders are ours on a message that was published again hop times.
func hopHeaders(hop int, kept bool) map[string]string {
	headers := map[string]string{"delaybridge-attempt": "1"}
	if hop > 0 && kept {
		headers["delaybridge-hop"] = fmt.Sprint(hop)
	}
	return headers
}

// checkHop compares what delivery has added, but for the time, and takes it away.
func checkHop(t *testing.T, headers map[string]string, hop int, kept bool, lastID string) (id string) {
	t.Helper()
	id = headers[core.HeaderID]
	if due, err := core.ParseTime(headers[core.HeaderDeliverAt]); err != nil || due.After(time.Now()) {
		t.Errorf("hop %d: due at %s, %v", hop, due, err)
	}
	delete(headers, core.HeaderID)
	delete(headers, core.HeaderDeliverAt)
	for name, want := range hopHeaders(hop, kept) {
		if headers[name] != want {
			t.Errorf("hop %d: %s is %q, not %q", hop, name, headers[name], want)
		}
		delete(headers, name)
	}
	if id == "" || id == lastID {
		t.Errorf("hop %d has the ID %q, and the one before had %q", hop, id, lastID)
	}
	return id
}

// TestKafkaRetryTopic: a consumer produces its record to the delayed topic again.
func TestKafkaRetryTopic(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4})
	orders := uniqueName("orders")
	for _, topic := range []string{orders, orders + ".delayed"} {
		cluster.CreateTopic(topic, 1)
	}
	g := newKafkaTarget(cluster, orders)
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"retries": {"kafka", map[string]any{"brokers": cluster.Addrs(), "topics": []string{orders + ".delayed"}, "group": uniqueName("group"),
			"on_bad_record": "stop", "sink": "broker", "topic": orders}}}), output(t))
	transport := &kafka.Transport{DialTimeout: writtenIn}
	t.Cleanup(transport.CloseIdleConnections)
	client := &kafka.Client{Addr: kafka.TCP(cluster.Addrs()...), Transport: transport, Timeout: writtenIn}
	produce := func(key, body []byte, headers []core.Header) {
		t.Helper()
		record := kafka.Record{Key: kafka.NewBytes(key), Value: kafka.NewBytes(body)}
		for _, h := range headers {
			record.Headers = append(record.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		answer, err := client.Produce(t.Context(), &kafka.ProduceRequest{Topic: orders + ".delayed", RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(record)})
		if err != nil || answer.Error != nil {
			t.Fatalf("produce: %v, %v", err, errorOf(answer))
		}
	}
	arrivals := newInbox(g.consume(t))
	for _, kept := range []bool{true, false} {
		key, body := []byte{0, 255}, someBytes(400)
		own := []core.Header{{Name: "trace", Value: []byte("\x00\xff")}, {Name: "trace", Value: []byte("2")}, {Name: "null"}}
		delay := core.Header{Name: "delaybridge-delay", Value: []byte(hopDelay.String())}
		lastID, sent := "", time.Now()
		produce(key, body, slices.Concat(own, []core.Header{delay}))
		for hop := range hops + 1 {
			got := arrivals.next(t)
			if got.at.Before(sent.Add(hopDelay)) {
				t.Errorf("hop %d came after %s", hop, got.at.Sub(sent))
			}
			if diff := cmp.Diff(own, got.headers[:len(own)]); diff != "" {
				t.Errorf("hop %d: %s", hop, diff)
			}
			added := make(map[string]string)
			for _, h := range got.headers[len(own):] {
				added[h.Name] = string(h.Value)
			}
			lastID = checkHop(t, added, hop, kept, lastID)
			if string(got.key) != string(key) || string(got.body) != string(body) || len(added) > 0 {
				t.Errorf("hop %d: key %q, body %q, headers %q", hop, got.key, got.body, added)
			}
			again := slices.Concat(own, []core.Header{delay})
			if kept {
				again = slices.Concat(got.headers, []core.Header{delay})
			}
			if sent = time.Now(); hop < hops {
				produce(got.key, got.body, again)
			}
		}
	}
	bridge.wantRetries(t, 2*hops+2, hops, 0)
	arrivals.nothing(t)
	bridge.stop()
}

// wantRetries: nothing was dropped, and what was published again is counted.
func (i *instance) wantRetries(t *testing.T, accepted, republished, duplicates int) {
	t.Helper()
	var answer struct {
		Sinks []struct {
			Done struct{ Accepted, Republished int } `json:"since_start"`
		}
		Sources []struct {
			Parked, Duplicates, Rejected int
			State                        string
		}
	}
	poll.Until(t, answersIn, "the stats are told", func() bool { return i.get("/v1/stats", &answer) == nil })
	if s := answer.Sinks[0].Done; s.Accepted != accepted || s.Republished != republished {
		t.Errorf("sink: %+v", s)
	}
	if s := answer.Sources; len(s) > 0 && (s[0].Parked != accepted || s[0].Duplicates != duplicates || s[0].Rejected != 0 || s[0].State != "running") {
		t.Errorf("source: %+v", s)
	}
}

// TestRabbitMQRetry: a consumer publishes what it has got, with its headers and
// properties and a new x-delay, to the delayed exchange again. That is what Spring
// does with a message whose delay was set again.
func TestRabbitMQRetry(t *testing.T) {
	t.Parallel()
	server := servers.RabbitMQ(t)
	orders := uniqueName("orders")
	declareExchange(t, server.URL(), orders, "key")
	g := newRabbitTarget(server.URL(), orders)
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"retries": {"amqp", map[string]any{"urls": []string{server.URL()}, "exchanges": []map[string]any{{"name": orders + ".delayed", "to": orders}},
			"on_bad_record": "stop", "sink": "broker"}}}), output(t))
	channel := rabbitChannel(t, server.URL())
	poll.Until(t, answersIn, "the exchange is there", func() bool {
		_, err := rabbitLength(server.URL(), "delaybridge."+orders+".delayed")
		return err == nil
	})
	deliveries, err := channel.Consume("key", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(p amqp.Publishing) {
		t.Helper()
		if err := channel.PublishWithContext(t.Context(), orders+".delayed", "key", false, false, p); err != nil {
			t.Fatal(err)
		}
	}
	republished := 0
	for _, test := range []struct {
		name      string
		messageID string
		kept      bool // our headers, and so the count of hops
	}{{"all kept", "m-1", true}, {"headers kept", "", true}, {"message_id kept", "m-2", false}, {"nothing kept", "", false}} {
		own := amqp.Table{"trace": "ü-1", "n": int32(7), "table": amqp.Table{"a": []any{int64(1), "b"}}, "null": nil}
		first := amqp.Publishing{MessageId: test.messageID, ContentType: "application/json", CorrelationId: "c", AppId: "shop", DeliveryMode: amqp.Persistent,
			Body: []byte(plainBody), Headers: amqp.Table{"x-delay": int32(hopDelay.Milliseconds())}}
		for name, value := range own {
			first.Headers[name] = value
		}
		lastID, sent := "", time.Now()
		publish(first)
		for hop := range hops + 1 {
			var d amqp.Delivery
			select {
			case d = <-deliveries:
			case <-time.After(plainLimit):
				t.Fatalf("%s: hop %d does not come:\n%s", test.name, hop, &bridge.Logs)
			}
			if took := time.Since(sent); took < hopDelay {
				t.Errorf("%s: hop %d came after %s", test.name, hop, took)
			}
			again := amqp.Publishing{MessageId: d.MessageId, ContentType: d.ContentType, CorrelationId: d.CorrelationId, AppId: d.AppId,
				DeliveryMode: d.DeliveryMode, Body: d.Body, Headers: amqp.Table{}}
			added, rest := make(map[string]string), amqp.Table{}
			for name, value := range d.Headers {
				if ours := strings.HasPrefix(name, core.HeaderPrefix); ours {
					added[name] = value.(string)
				} else {
					rest[name] = value
				}
				if test.kept || !strings.HasPrefix(name, core.HeaderPrefix) {
					again.Headers[name] = value
				}
			}
			// Who takes our headers off can't be counted, but is known by the message_id.
			known := hop
			if !test.kept {
				known = 0
				if test.messageID != "" && hop > 0 {
					known = 1
				}
			}
			if known > 0 {
				republished++
			}
			lastID = checkHop(t, added, known, true, lastID)
			if rest["x-delay"] != int32(-hopDelay.Milliseconds()) || len(added) > 0 {
				t.Errorf("%s: hop %d: x-delay %v, more %q", test.name, hop, rest["x-delay"], added)
			}
			delete(rest, "x-delay")
			if diff := cmp.Diff(own, rest); diff != "" {
				t.Errorf("%s: hop %d: %s", test.name, hop, diff)
			}
			if (test.messageID != "" && d.MessageId != test.messageID) || d.ContentType != "application/json" || d.CorrelationId != "c" || d.AppId != "shop" || string(d.Body) != plainBody {
				t.Errorf("%s: hop %d: %+v", test.name, hop, d)
			}
			again.Headers["x-delay"] = int32(hopDelay.Milliseconds())
			if test.messageID == "" {
				again.MessageId = ""
			}
			if sent = time.Now(); hop < hops {
				publish(again)
			}
		}
	}
	bridge.wantRetries(t, 4*(hops+1), republished, 0)
	bridge.stop()
	if len(deliveries) > 0 {
		t.Errorf("%+v came too", <-deliveries)
	}
}

// TestRocketMQRetryTopic: a consumer sends its message to the delayed topic again.
func TestRocketMQRetryTopic(t *testing.T) {
	t.Parallel()
	quietRocket()
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Version: servers.RocketMQ5})
	orders := uniqueName("orders")
	for _, topic := range []string{orders, orders + "-delayed"} {
		cluster.CreateTopic(topic, 1)
	}
	g := newRocketTarget(cluster, orders)
	bridge := serve(t, withSources(t, bridgeConfig(t, map[string]*target{"broker": g}), map[string]sourceConfig{
		"retries": {"rocketmq", map[string]any{"name_servers": cluster.NameServers(), "topics": []string{orders + "-delayed"}, "group": uniqueName("group"),
			"request_timeout": "1m", "on_bad_record": "stop", "sink": "broker", "topic": orders}}}), output(t))
	name := uniqueName("producer")
	client, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(cluster.NameServers())),
		producer.WithGroupName(name), producer.WithInstanceName(name), producer.WithRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Shutdown() })
	send := func(properties map[string]string, body []byte) {
		t.Helper()
		m := primitive.NewMessage(orders+"-delayed", body)
		m.WithProperties(properties)
		if result, err := client.SendSync(t.Context(), m); err != nil || result.Status != primitive.SendOK {
			t.Fatalf("send: %v, %v", result, err)
		}
	}
	arrived := make(chan *primitive.MessageExt, arrivalRoom)
	consumeRocketRaw(t, cluster.NameServers(), orders, arrived)
	for _, kept := range []bool{true, false} {
		own := map[string]string{"trace": "ü-1", "KEYS": "k1 k2", "TAGS": "paid", "__SHARDINGKEY": "customer 7", "SHARDING_KEY": "customer 7"}
		with := func(more map[string]string) map[string]string {
			all := map[string]string{"delaybridge-delay": hopDelay.String()}
			for _, properties := range []map[string]string{own, more} {
				for name, value := range properties {
					all[name] = value
				}
			}
			return all
		}
		lastID, sent := "", time.Now()
		send(with(nil), []byte(plainBody))
		for hop := range hops + 1 {
			var got *primitive.MessageExt
			select {
			case got = <-arrived:
			case <-time.After(plainLimit):
				t.Fatalf("hop %d does not come:\n%s", hop, &bridge.Logs)
			}
			if took := time.Since(sent); took < hopDelay {
				t.Errorf("hop %d came after %s", hop, took)
			}
			added, all := make(map[string]string), got.GetProperties()
			for name, value := range all {
				if strings.HasPrefix(name, core.HeaderPrefix) {
					added[name] = value
				}
			}
			lastID = checkHop(t, added, hop, kept, lastID)
			for name, want := range own {
				if name == "KEYS" {
					want = lastID + " " + want
				}
				if all[name] != want {
					t.Errorf("hop %d: %s is %q, not %q", hop, name, all[name], want)
				}
			}
			if string(got.Body) != plainBody || len(added) > 0 {
				t.Errorf("hop %d: body %q, more %q", hop, got.Body, added)
			}
			if sent = time.Now(); hop == hops {
				continue
			}
			if kept {
				delete(all, "UNIQ_KEY") // each client gives its own
				all["delaybridge-delay"] = hopDelay.String()
				send(all, got.Body)
			} else {
				send(with(nil), got.Body)
			}
		}
	}
	bridge.wantRetries(t, 2*hops+2, hops, 0)
	bridge.stop()
}

func consumeRocketRaw(t *testing.T, nameServers []string, topic string, arrived chan<- *primitive.MessageExt) {
	t.Helper()
	name := uniqueName("consumer")
	c, err := rocketmq.NewPushConsumer(consumer.WithGroupName(name), consumer.WithInstance(name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver(nameServers)), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		t.Fatal(err)
	}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			arrived <- m
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, take); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
}
