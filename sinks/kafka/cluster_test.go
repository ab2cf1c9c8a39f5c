//go:build unix

package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// leaderOf returns the node that leads partition 0 of topic.
func (c *testCluster) leaderOf(t testing.TB, topic string) int {
	t.Helper()
	for deadline := time.Now().Add(maxStall); ; time.Sleep(between) {
		answer, err := c.client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{topic}})
		if err == nil && len(answer.Topics[0].Partitions) > 0 && answer.Topics[0].Partitions[0].Leader.Host != "" {
			return answer.Topics[0].Partitions[0].Leader.ID
		}
		if time.Now().After(deadline) {
			t.Fatalf("no leader of %s: %v", topic, err)
		}
	}
}

// maxStall bounds how long a stream stands still. A cluster needs seconds to
// notice a loss, and much longer on a busy machine; the figures are logged.
const maxStall = 3 * time.Minute

// between is how long a loop waits before it asks a cluster again.
const between = 20 * time.Millisecond

// stream is one sender that delivers one message after the other, each until it
// is confirmed.
type stream struct {
	sink    *Sink
	topic   string
	stop    chan struct{}
	done    chan struct{}
	sent    atomic.Int64 // confirmed
	unknown int          // outcomes; read when done is closed
	stall   time.Duration
}

func startStream(t testing.TB, c *testCluster, topic string) *stream {
	s := &stream{sink: openTest(t, c.Addrs(), brisk(nil), nil), topic: topic, stop: make(chan struct{}), done: make(chan struct{})}
	go s.run(t)
	s.await(t, 10)
	return s
}

// await waits until so many more messages are confirmed.
func (s *stream) await(t testing.TB, more int64) {
	t.Helper()
	want := s.sent.Load() + more
	poll.Until(t, maxStall, "the stream goes on", func() bool { return s.sent.Load() >= want })
}

func (s *stream) run(t testing.TB) {
	defer close(s.done)
	defer s.sink.Close()
	for last := time.Now(); ; {
		select {
		case <-s.stop:
			return
		default:
		}
		switch class, err := s.one(t); class {
		case wellDone:
			s.sent.Add(1)
			s.stall = max(s.stall, time.Since(last))
			last = time.Now()
			continue
		case core.Unknown:
			s.unknown++
		case core.Permanent, core.Blocked:
			t.Errorf("message %d: %v", s.sent.Load(), err)
			return
		}
		time.Sleep(between) // an engine would wait longer
	}
}

func (s *stream) one(t testing.TB) (core.Class, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n := s.sent.Load()
	err := s.sink.Deliver(ctx, []*core.Message{{ID: fmt.Sprint(n), Topic: s.topic, Body: fmt.Append(nil, n), Attempt: 1}})
	return each(1, err)[0], err
}

// end ends the stream and holds what arrived against it.
func (s *stream) end(t *testing.T, c *testCluster) {
	t.Helper()
	s.await(t, 10)
	close(s.stop)
	<-s.done
	t.Logf("%d confirmed, %d unknown, longest stall %s", s.sent.Load(), s.unknown, s.stall.Round(time.Millisecond))
	if s.stall > maxStall {
		t.Errorf("longest stall %s, want at most %s", s.stall, maxStall)
	}
	c.wantStream(t, s.topic, int(s.sent.Load()), s.unknown)
}

// TestThreeNodes moves leaders about under load, gently and by force. Nothing is
// lost, nothing repeated but after an unknown outcome.
func TestThreeNodes(t *testing.T) {
	c := startCluster(t, servers.KafkaOptions{Nodes: 3})
	for _, test := range []struct {
		name  string
		fault func(n *servers.Node)
		heal  func(n *servers.Node)
	}{
		{"leader stopped", (*servers.Node).Stop, (*servers.Node).Start},
		{"leader killed", (*servers.Node).Kill, (*servers.Node).Start}, // it takes 3 s to be noticed
		{"leader paused", (*servers.Node).Pause, (*servers.Node).Resume},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startStream(t, c, c.topic(1))
			leader := c.Node(c.leaderOf(t, s.topic))
			test.fault(leader)
			s.await(t, 10)
			test.heal(leader)
			s.end(t, c)
		})
	}
	t.Run("leader moved", func(t *testing.T) { testLeaderMoved(t, c) })
	t.Run("too few replicas", func(t *testing.T) { testTooFewReplicas(t, c) })
}

// TestPausedBroker stops the only broker without killing it: the trouble is the
// sink's, is said in time, and ends by itself.
func TestPausedBroker(t *testing.T) {
	t.Parallel()
	c := startCluster(t, servers.KafkaOptions{Version: servers.Kafka4})
	s := startStream(t, c, c.topic(1))
	sink := openTest(t, c.Addrs(), brisk(nil), nil)
	defer sink.Close()
	if err := sink.Deliver(t.Context(), messages(s.topic+"x", "x")); isWhole(err) {
		t.Fatal(err)
	}
	c.Node(0).Pause()
	for try := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), maxStall)
		err := sink.Deliver(ctx, messages(s.topic, "never mind"))
		if !isWhole(err) || core.ClassOf(err) != core.Retry || ctx.Err() != nil {
			t.Errorf("try %d: got %v, want one error of class retry before the context ends", try, err)
		}
		cancel()
	}
	if err := sink.Health(t.Context()); err == nil {
		t.Error("Health is good while the broker stands still")
	}
	c.Node(0).Resume()
	s.end(t, c)
	if err := poll.Succeeds(maxStall, func() error { return sink.Health(t.Context()) }); err != nil {
		t.Fatalf("Health when the broker goes on: %v", err)
	}
}

// testLeaderMoved reassigns the partition to other brokers, so that its leader
// changes while all are well.
func testLeaderMoved(t *testing.T, c *testCluster) {
	s := startStream(t, c, c.topic(1))
	for range 4 {
		old := c.leaderOf(t, s.topic)
		replicas := []int{(old + 1) % 3, (old + 2) % 3}
		answer, err := c.client.AlterPartitionReassignments(t.Context(), &kafka.AlterPartitionReassignmentsRequest{
			Topic: s.topic, Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: replicas}}, Timeout: 30 * time.Second})
		if err != nil || answer.Error != nil {
			t.Fatal(err, answer)
		}
		poll.Until(t, maxStall, "the leader moves", func() bool { return c.leaderOf(t, s.topic) != old })
	}
	s.end(t, c)
}

func testTooFewReplicas(t *testing.T, c *testCluster) {
	topic := c.topic(1, "min.insync.replicas=3")
	other := (c.leaderOf(t, topic) + 1) % 3
	c.Node(other).Kill()
	defer c.Node(other).Start()
	sink := openTest(t, c.Addrs(), nil, nil)
	defer sink.Close()
	for deadline := time.Now().Add(maxStall); ; time.Sleep(between) {
		err := sink.Deliver(t.Context(), []*core.Message{{ID: "x", Topic: topic, Attempt: 1}})
		if class := each(1, err)[0]; class == core.TopicBlocked && strings.Contains(err.Error(), "Not Enough Replicas (") {
			return
		} else if class != wellDone && class != core.Unknown && class != core.TopicBlocked {
			t.Fatalf("class %s: %v", class, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("two of three replicas are enough, it seems: %v", err)
		}
	}
}

// wantStream checks that the topic has each message of a stream, in order, and
// no more repeats than outcomes were unknown.
func (c *testCluster) wantStream(t *testing.T, topic string, confirmed, unknown int) {
	t.Helper()
	next := c.consume(t, topic)
	ctx, cancel := context.WithTimeout(t.Context(), maxStall)
	defer cancel()
	repeats, last := 0, ""
	for n := 0; n < confirmed; {
		r, err := next(ctx)
		switch body := string(r.Body); {
		case err != nil:
			t.Fatalf("after %d messages: %v", n+repeats, err)
		case n > 0 && body == last:
			repeats++
		case body != fmt.Sprint(n):
			t.Fatalf("message %d is %s", n, body)
		default:
			last = body
			n++
		}
	}
	if repeats > unknown {
		t.Errorf("%d repeats after %d unknown outcomes", repeats, unknown)
	}
}

// TestRealTopics is about what only a real broker knows: codecs, limits, missing
// topics.
func TestRealTopics(t *testing.T) {
	t.Parallel()
	c := startCluster(t, servers.KafkaOptions{Version: servers.Kafka4})
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := c.topic(1)
			sink := openTest(t, c.Addrs(), map[string]any{"compression": codec}, nil)
			defer sink.Close()
			bodies := numbered(300)
			if err := sink.Deliver(t.Context(), messages(topic, bodies...)); err != nil {
				t.Fatal(err)
			}
			next := c.consume(t, topic)
			for n := range bodies {
				r, err := next(t.Context())
				if err != nil || string(r.Body) != bodies[n] {
					t.Fatalf("message %d: %q, %v", n, r.Body, err)
				}
			}
		})
	}
	t.Run("topic with a lower limit", func(t *testing.T) {
		topic := c.topic(1, "max.message.bytes=5000")
		sink := openTest(t, c.Addrs(), nil, nil)
		defer sink.Close()
		bodies := numbered(200)
		bodies[60] = strings.Repeat("x", 6000)
		want := slices.Repeat([]core.Class{wellDone}, 200)
		want[60] = core.Permanent
		if got := each(200, sink.Deliver(t.Context(), messages(topic, bodies...))); !slices.Equal(got, want) {
			t.Errorf("classes %v", got)
		}
		next := c.consume(t, topic)
		for n, body := range slices.Delete(bodies, 60, 61) {
			if r, err := next(t.Context()); err != nil || string(r.Body) != body {
				t.Fatalf("message %d: %.20q, %v", n, r.Body, err)
			}
		}
	})
	t.Run("compacted topic", func(t *testing.T) {
		topic := c.topic(1, "cleanup.policy=compact")
		sink := openTest(t, c.Addrs(), nil, nil)
		defer sink.Close()
		batch := messages(topic, numbered(6)...)
		for n := range batch {
			if n != 3 {
				batch[n].Key = []byte("k")
			}
		}
		err := sink.Deliver(t.Context(), batch)
		want := slices.Repeat([]core.Class{wellDone}, 6)
		want[3] = core.Permanent
		if got := each(6, err); !slices.Equal(got, want) {
			t.Errorf("classes %v: %v", got, err)
		}
	})
}
