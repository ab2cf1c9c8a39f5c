//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/integration/servers"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	kafkasource "github.com/delaybridge/delaybridge/interceptors/kafka"
)

// sourceRounds are taken in turn with the raw loops, the best of each counts.
// One more goes before them and does not: a broker's virtual machine is slow at
// first.
const sourceRounds = 3

// measureSource: from where producers write until it is parked, beside the raw
// loops of the part park. The broker, or the client of a stream, shares the
// processors and does its work for each message, which the raw loops have not.
func measureSource(ctx context.Context, b *bench) error {
	if err := b.measureKafkaSource(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return b.measureSourceRounds(ctx, fmt.Sprintf("gRPC, %d streams, %d messages a request", grpcStreams, grpcEach), grpcMany, grpcRound)
}

func (b *bench) measureKafkaSource(ctx context.Context) error {
	const n = 200_000
	var addrs []string
	stop, err := startServer(func(t servers.TB) { addrs = startKafka(t, brokerTopic) })
	if err != nil {
		return err
	}
	defer stop()
	if err := fillKafka(ctx, addrs, n); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	what := fmt.Sprintf("Kafka, %d k records of %d partitions", n/1000, brokerPartitions)
	return b.measureSourceRounds(ctx, what, n, func(ctx context.Context, br *bridge) (float64, error) { return kafkaRound(ctx, br, addrs, n) })
}

// sourceRun is one way to park, ours or a raw loop, as measured.
type sourceRun struct {
	rate float64       // messages a second; the best
	cpu  time.Duration // a million messages cost Redis and this process; the least
}

func (r *sourceRun) take(other sourceRun) {
	r.rate, r.cpu = max(r.rate, other.rate), min(cmp.Or(r.cpu, other.cpu), other.cpu)
}

// measureSourceRounds prints what round makes beside both raw loops. The
// processor time hardly depends on what else the machine does, and leaves the
// broker out.
func (b *bench) measureSourceRounds(ctx context.Context, what string, n int, round func(context.Context, *bridge) (float64, error)) error {
	var single, batched, ours sourceRun
	for turn := range sourceRounds + 1 {
		seen, err := b.sourceTurn(ctx, n, round)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "bench: %s, round %d: raw %.0f/s and %.0f/s, ours %.0f/s\n", what, turn, seen[0].rate, seen[1].rate, seen[2].rate)
		if turn > 0 {
			single.take(seen[0])
			batched.take(seen[1])
			ours.take(seen[2])
		}
	}
	b.table.rates(what+", until parked; raw: HSETNX and ZADD a message, pipelined", ours.rate, single.rate, "≥ 60 %")
	b.table.rates("… raw: one HSET and one ZADD for 500 messages", ours.rate, batched.rate, "")
	b.table.row("… processor time a message, of Redis and this process; raw: HSETNX and ZADD a message", ours.perMessage(), single.perMessage(),
		fmt.Sprintf("%.0f %%", 100*float64(single.cpu)/float64(ours.cpu)), "")
	return nil
}

// perMessage: seconds for a million are microseconds for one.
func (r sourceRun) perMessage() string { return fmt.Sprintf("%.1f µs", r.cpu.Seconds()) }

// sourceTurn is both raw loops, and then ours.
func (b *bench) sourceTurn(ctx context.Context, n int, round func(context.Context, *bridge) (float64, error)) (seen [3]sourceRun, err error) {
	raw := func(single bool) func() (float64, error) {
		return func() (float64, error) {
			return rawPark(ctx, b.redis.client, n, time.Now().Add(time.Hour), single)
		}
	}
	ways := []func() (float64, error){raw(true), raw(false), func() (float64, error) { return b.sourceRound(ctx, round) }}
	for i, way := range ways {
		if err := b.redis.flush(ctx); err != nil {
			return seen, err
		}
		runtime.GC()
		before, err1 := b.usedTime()
		rate, err2 := way()
		after, err3 := b.usedTime()
		if err := errors.Join(err1, err2, err3); err != nil {
			return seen, err
		}
		seen[i] = sourceRun{rate, (after - before) * million / time.Duration(n)}
	}
	return seen, nil
}

// usedTime is the processor time that Redis and this process have used.
func (b *bench) usedTime() (time.Duration, error) {
	redis, err1 := cpuTime(b.redis.cmd.Process.Pid)
	own, err2 := cpuTime(os.Getpid())
	return redis + own, errors.Join(err1, err2)
}

// sourceRound runs round with a bridge.
func (b *bench) sourceRound(ctx context.Context, round func(context.Context, *bridge) (float64, error)) (rate float64, err error) {
	br, err := b.openBridge(ctx)
	if err != nil {
		return 0, err
	}
	rate, err = round(ctx, br)
	return rate, errors.Join(err, br.stop())
}

// fillKafka writes n tagged records in batches, as producers do.
func fillKafka(ctx context.Context, addrs []string, n int) error {
	const batch = 500
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addrs...), Transport: transport}
	headers := []kafka.Header{{Key: "delaybridge-delay", Value: []byte("1h")}}
	for _, h := range brokerHeaders() {
		headers = append(headers, kafka.Header{Key: h.Name, Value: h.Value})
	}
	shared := body(bodySize)
	for done := 0; done < n; done += batch {
		records := make([]kafka.Record, batch)
		for i := range records {
			key := strconv.AppendInt(nil, int64(done+i), 10)
			records[i] = kafka.Record{Key: kafka.NewBytes(key), Value: kafka.NewBytes(shared), Headers: headers}
		}
		answer, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: brokerTopic, Partition: done / batch % brokerPartitions,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
		if err == nil {
			err = answer.Error
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kafkaRound reads all n records in a group of its own. The time to join it is
// not counted.
func kafkaRound(ctx context.Context, br *bridge, addrs []string, n uint64) (perSecond float64, err error) {
	config, err := json.Marshal(map[string]any{"brokers": addrs, "topics": []string{brokerTopic}, "sink": benchSink, "topic": "orders", "on_bad_record": "stop",
		"group": fmt.Sprintf("bench-%d", time.Now().UnixNano())})
	if err != nil {
		return 0, err
	}
	listener, err := kafkasource.New("bench", config, br.in, nil)
	if err != nil {
		return 0, err
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(run) }()
	began, before := time.Time{}, uint64(0)
	for parked := uint64(0); parked < n && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		parked = listener.Report().Parked
		if began.IsZero() && parked > 0 {
			began, before = time.Now(), parked
		}
	}
	perSecond = float64(n-before) / time.Since(began).Seconds()
	cancel()
	return perSecond, errors.Join(ctx.Err(), <-ended)
}

const (
	grpcMany    = 200_000
	grpcStreams = 4
	grpcEach    = 100 // messages a request
)

// grpcRound sends ready-made requests over streams, without waiting for results.
func grpcRound(ctx context.Context, br *bridge) (perSecond float64, err error) {
	listener, err := grpclistener.New(grpclistener.Config{Listen: "127.0.0.1:0"}, br.in)
	if err != nil {
		return 0, err
	}
	at, err := listener.Listen()
	if err != nil {
		return 0, err
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(run) }()
	conn, err := grpc.NewClient("passthrough:///"+at.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		began := time.Now()
		err = parallel(grpcStreams, func() error {
			return streamAll(ctx, bridgev1.NewBridgeServiceClient(conn), grpcMany/grpcStreams/grpcEach)
		})
		perSecond = grpcMany / time.Since(began).Seconds()
		err = errors.Join(err, conn.Close())
	}
	cancel()
	return perSecond, errors.Join(err, <-ended)
}

// grpcMessages are as those in Kafka.
func grpcMessages() *bridgev1.PublishStreamRequest {
	request := new(bridgev1.PublishStreamRequest)
	var headers []*bridgev1.Header
	for _, h := range brokerHeaders() {
		headers = append(headers, &bridgev1.Header{Name: h.Name, Value: h.Value})
	}
	for i := range grpcEach {
		request.Messages = append(request.Messages, &bridgev1.Message{Topic: "orders", Key: strconv.AppendInt(nil, int64(i), 10),
			Headers: headers, Body: body(bodySize), Delay: durationpb.New(time.Hour)})
	}
	return request
}

// streamAll sends a request so many times, and reads every result.
func streamAll(ctx context.Context, client bridgev1.BridgeServiceClient, times int) error {
	stream, err := client.PublishStream(ctx)
	if err != nil {
		return err
	}
	request := grpcMessages()
	go func() {
		for range times {
			if stream.Send(request) != nil {
				return // shows in Recv
			}
		}
		_ = stream.CloseSend() // shows in Recv
	}()
	results := 0
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, r := range response.GetResults() {
			if r.GetError() != nil {
				return fmt.Errorf("not accepted: %v", r.GetError())
			}
		}
		results += len(response.GetResults())
	}
	if want := times * grpcEach; results != want {
		return fmt.Errorf("%d results for %d messages", results, want)
	}
	return nil
}
