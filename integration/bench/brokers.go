//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/amqp"
	"github.com/delaybridge/delaybridge/sinks/kafka"
	"github.com/delaybridge/delaybridge/sinks/rocketmq"
)

// brokerCase is one broker: how it is started, our sink, and the client library
// at its best.
type brokerCase struct {
	name    string
	n       int // messages of a burst
	added   time.Duration
	start   func(t servers.TB, topic string) []string // addresses
	setting string                                    // of the sink, that takes the addresses
	open    core.OpenFunc
	raw     rawBurst
	encoded rawBurst // with batches made by hand; nil: there is no such way
	rawLone func(ctx context.Context, addrs []string) (p50 time.Duration, err error)
	empty   func(addr, topic string) error // before a burst; nil: what a topic holds does not matter
}

// rawBurst sends n messages by the client library alone.
type rawBurst func(ctx context.Context, addrs []string, topic string, n int) (perSecond float64, err error)

func brokerCases() []brokerCase {
	return []brokerCase{
		{"Kafka", 200_000, time.Millisecond, startKafka, "brokers", kafka.Open, rawKafka, nil, rawLoneKafka, nil},
		{"RocketMQ", 100_000, 2 * time.Millisecond, startRocketMQ, "name_servers", rocketmq.Open, rawRocketMQ(), rawRocketEncoded(), rawLoneRocketMQ, nil},
		{"RabbitMQ", 50_000, time.Millisecond, startRabbitMQ, "urls", amqp.Open, rawRabbitMQ(), nil, rawLoneRabbitMQ, purgeQueue},
	}
}

const (
	brokerTopic      = "bench"
	brokerPartitions = 4
)

func startKafka(t servers.TB, topic string) []string {
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4})
	cluster.CreateTopic(topic, brokerPartitions)
	return cluster.Addrs()
}

func startRocketMQ(t servers.TB, topic string) []string {
	rlog.SetLogLevel("fatal") // the library has one log for the process
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{})
	cluster.CreateTopic(topic, brokerPartitions)
	return cluster.NameServers()
}

func startRabbitMQ(t servers.TB, topic string) []string {
	server := servers.RabbitMQ(t)
	if err := declareQueue(server.URL(), topic); err != nil {
		t.Fatalf("declare queue %s: %v", topic, err)
	}
	return []string{server.URL()}
}

// measureBrokers: a burst into each broker, beside N, the same burst into the
// null sink, and R, the raw client library. Bridge, client and broker share the
// processors, so that the work of both must be done for each message, and the
// most that can be reached is 1/(1/N+1/R). A broker that keeps to one processor,
// as ours of RabbitMQ does, leaves the other to the bridge: then it can be more.
//
// DELAYBRIDGE_BENCH_BROKER names the only broker to measure.
func measureBrokers(ctx context.Context, b *bench) error {
	only := os.Getenv("DELAYBRIDGE_BENCH_BROKER")
	for _, c := range brokerCases() {
		if only != "" && only != c.name {
			continue
		}
		if err := c.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (c brokerCase) measure(ctx context.Context, b *bench) (err error) {
	var addrs []string
	stop, err := startServer(func(t servers.TB) { addrs = c.start(t, brokerTopic) })
	if err != nil {
		return err
	}
	defer stop()
	config, err := json.Marshal(map[string][]string{c.setting: addrs})
	if err != nil {
		return err
	}
	open := func() (core.Sink, error) { return c.open(ctx, config) }
	if err := c.measureBurst(ctx, b, addrs, open); err != nil {
		return err
	}
	return c.measureLone(ctx, b, addrs, open)
}

// startServer runs start and returns the end of what it started.
func startServer(start func(servers.TB)) (stop func(), err error) {
	h, err := servers.NewHost("bench", io.Discard)
	if err != nil {
		return nil, err
	}
	stop = func() { h.Close(); os.RemoveAll(h.Dir()) }
	h.Do(func() { start(h) })
	if err := errors.Join(h.Failed(), h.Skipped()); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// brokerRounds are taken in turn, the best of each counts. One more goes before
// them and does not: a broker's virtual machine is slow at first.
const brokerRounds = 3

func (c brokerCase) measureBurst(ctx context.Context, b *bench, addrs []string, open func() (core.Sink, error)) error {
	var best burstRates
	for round := range brokerRounds + 1 {
		seen, err := c.measureRound(ctx, b, addrs, open)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "bench: %s, round %d: raw %.0f/s (batches by hand %.0f/s), null %.0f/s, ours %.0f/s\n",
			c.name, round, seen.raw, seen.encoded, seen.null, seen.ours)
		if round > 0 {
			best.take(seen)
		}
	}
	b.table.rates(fmt.Sprintf("burst of %d k into %s; raw: N %s into the null sink and R %s with the client library make %s", c.n/1000,
		c.name, perSecond(best.null), perSecond(best.raw), "1/(1/N+1/R)"), best.ours, best.limit(best.raw), "≥ 80 %")
	if c.encoded != nil {
		b.table.rates(fmt.Sprintf("… with R %s, where the batches that the client library sends are made by hand", perSecond(best.encoded)),
			best.ours, best.limit(best.encoded), "")
	}
	return nil
}

// burstRates are messages a second: by the client library, by it with batches
// made by hand, by the bridge into the null sink, and by the bridge into the
// broker.
type burstRates struct{ raw, encoded, null, ours float64 }

func (r *burstRates) take(other burstRates) {
	r.raw, r.encoded = max(r.raw, other.raw), max(r.encoded, other.encoded)
	r.null, r.ours = max(r.null, other.null), max(r.ours, other.ours)
}

func (r *burstRates) limit(raw float64) float64 { return 1 / (1/r.null + 1/raw) }

func (c brokerCase) measureRound(ctx context.Context, b *bench, addrs []string, open func() (core.Sink, error)) (seen burstRates, err error) {
	if seen.raw, err = c.raw(ctx, addrs, brokerTopic, c.n); err != nil {
		return seen, fmt.Errorf("raw: %w", err)
	}
	if c.encoded != nil {
		if seen.encoded, err = c.encoded(ctx, addrs, brokerTopic, c.n); err != nil {
			return seen, fmt.Errorf("raw, with batches made by hand: %w", err)
		}
	}
	if seen.null, err = brokerBurst(ctx, b, openNull, c.n); err != nil {
		return seen, err
	}
	if c.empty != nil {
		if err = c.empty(addrs[0], brokerTopic); err != nil {
			return seen, fmt.Errorf("empty %s: %w", brokerTopic, err)
		}
	}
	seen.ours, err = brokerBurst(ctx, b, open, c.n)
	return seen, err
}

// countedSink counts what another sink has confirmed.
type countedSink struct {
	nullSink
	next core.Sink // nil confirms at once
}

func (s *countedSink) Deliver(ctx context.Context, batch []*core.Message) error {
	if s.next == nil {
		return s.nullSink.Deliver(ctx, batch)
	}
	err := s.next.Deliver(ctx, batch)
	if err == nil {
		return s.nullSink.Deliver(ctx, batch)
	}
	fmt.Fprintln(os.Stderr, "bench: deliver:", err) // what failed is tried again, and counts then
	if results, ok := errors.AsType[core.BatchError](err); ok {
		_ = s.nullSink.Deliver(ctx, confirmedOf(batch, results)) // never fails
	}
	return err
}

// confirmedOf are the messages of a batch that did not fail.
func confirmedOf(batch []*core.Message, results core.BatchError) []*core.Message {
	var confirmed []*core.Message
	for i, m := range batch {
		if results[i] == nil {
			confirmed = append(confirmed, m)
		}
	}
	return confirmed
}

func (s *countedSink) Close() error {
	if s.next == nil {
		return nil
	}
	return s.next.Close()
}

func openNull() (core.Sink, error) { return nil, nil }

// brokerHeaders are the two of every message.
func brokerHeaders() []core.Header {
	return []core.Header{{Name: "content-type", Value: []byte("text/plain")}, {Name: "trace", Value: []byte("0123456789")}}
}

// errVoid: messages were due before all were parked.
var errVoid = errors.New("parking took longer than planned; the burst is void")

// brokerBurst drains n messages that are due at one instant, which is later when
// parking is slow.
func brokerBurst(ctx context.Context, b *bench, open func() (core.Sink, error), n int) (perSecond float64, err error) {
	lead := time.Duration(n/60_000+3) * time.Second
	for range 3 {
		if perSecond, err = brokerBurstIn(ctx, b, open, n, lead); !errors.Is(err, errVoid) {
			break
		}
		lead *= 2
	}
	return perSecond, err
}

func brokerBurstIn(ctx context.Context, b *bench, open func() (core.Sink, error), n int, lead time.Duration) (perSecond float64, err error) {
	br, err := b.openBridgeTo(ctx, open)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	due := time.Now().Add(lead).Truncate(time.Millisecond)
	headers, next := brokerHeaders(), atomic.Int64{}
	br.sink.expect(n)
	err = br.fill(ctx, n, bodySize, func(m *core.Message) {
		m.DeliverAt, m.Topic, m.Headers, m.Key = due, brokerTopic, headers, strconv.AppendInt(nil, next.Add(1), 10)
	})
	if err != nil {
		return 0, err
	}
	if time.Until(due) < 200*time.Millisecond {
		return 0, errVoid
	}
	runtime.GC()
	select {
	case <-br.sink.reached:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return float64(n) / time.Unix(0, br.sink.last.Load()).Sub(due).Seconds(), nil
}
