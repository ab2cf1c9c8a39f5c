package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// leaderOf returns the node that leads partition 0 of topic.
func (c *testCluster) leaderOf(t testing.TB, topic string) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		answer, err := c.client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{topic}})
		if err == nil && len(answer.Topics[0].Partitions) > 0 && answer.Topics[0].Partitions[0].Leader.Host != "" {
			return answer.Topics[0].Partitions[0].Leader.ID
		}
		if time.Now().After(deadline) {
			t.Fatalf("no leader of %s: %v", topic, err)
		}
	}
}

// stream delivers one message after the other until stop is closed, each until
// it is confirmed, and returns how many, and the longest time without success.
// It may repeat messages only after an unknown outcome.
func stream(t testing.TB, sink *Sink, topic string, stop <-chan struct{}) (confirmed, unknown int, stall time.Duration) {
	last := time.Now()
	for {
		select {
		case <-stop:
			return confirmed, unknown, stall
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := sink.Deliver(ctx, []*core.Message{{ID: fmt.Sprint(confirmed), Topic: topic, Body: fmt.Append(nil, confirmed), Attempt: 1}})
		cancel()
		switch class := each(1, err)[0]; class {
		case wellDone:
			confirmed++
			stall = max(stall, time.Since(last))
			last = time.Now()
		case core.Unknown:
			unknown++
		case core.Permanent, core.Blocked:
			t.Errorf("message %d: %v", confirmed, err)
			return confirmed, unknown, stall
		}
	}
}

// TestThreeNodes moves leaders about under load, gently and by force. Nothing is
// lost, nothing repeated but after an unknown outcome.
func TestThreeNodes(t *testing.T) {
	c := startCluster(t, servers.KafkaOptions{Nodes: 3})
	for _, test := range []struct {
		name  string
		fault func(n *servers.Node)
		heal  func(n *servers.Node)
		stall time.Duration
	}{
		{"leader stopped", (*servers.Node).Stop, (*servers.Node).Start, 4 * time.Second},
		{"leader killed", (*servers.Node).Kill, (*servers.Node).Start, 8 * time.Second}, // 3 s until the others notice
		{"leader paused", func(n *servers.Node) { n.Pause(); time.Sleep(8 * time.Second) }, (*servers.Node).Resume, 12 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := c.topic(1)
			sink := openTest(t, c.Addrs(), nil, nil)
			defer sink.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			var confirmed, unknown int
			var stall time.Duration
			go func() { defer close(done); confirmed, unknown, stall = stream(t, sink, topic, stop) }()
			leader := c.Node(c.leaderOf(t, topic))
			test.fault(leader)
			c.leaderOf(t, topic)
			time.Sleep(time.Second)
			test.heal(leader)
			close(stop)
			<-done
			t.Logf("%d confirmed, %d unknown, longest stall %s", confirmed, unknown, stall.Round(time.Millisecond))
			if stall > test.stall {
				t.Errorf("longest stall %s, want at most %s", stall, test.stall)
			}
			c.wantStream(t, topic, confirmed, unknown)
		})
	}
	t.Run("leader moved", func(t *testing.T) { testLeaderMoved(t, c) })
	t.Run("too few replicas", func(t *testing.T) { testTooFewReplicas(t, c) })
}

// testLeaderMoved reassigns the partition to other brokers, so that its leader
// changes while all are well.
func testLeaderMoved(t *testing.T, c *testCluster) {
	topic := c.topic(1)
	sink := openTest(t, c.Addrs(), nil, nil)
	defer sink.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	var confirmed, unknown int
	var stall time.Duration
	go func() { defer close(done); confirmed, unknown, stall = stream(t, sink, topic, stop) }()
	for range 4 {
		old := c.leaderOf(t, topic)
		replicas := []int{(old + 1) % 3, (old + 2) % 3}
		answer, err := c.client.AlterPartitionReassignments(t.Context(), &kafka.AlterPartitionReassignmentsRequest{
			Topic: topic, Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: replicas}}, Timeout: 5 * time.Second})
		if err != nil || answer.Error != nil {
			t.Fatal(err, answer)
		}
		for deadline := time.Now().Add(20 * time.Second); c.leaderOf(t, topic) == old; {
			if time.Now().After(deadline) {
				t.Fatal("the leader does not move")
			}
		}
	}
	close(stop)
	<-done
	t.Logf("%d confirmed, %d unknown, longest stall %s", confirmed, unknown, stall.Round(time.Millisecond))
	if stall > 2*time.Second {
		t.Errorf("longest stall %s, want at most 2s", stall)
	}
	c.wantStream(t, topic, confirmed, unknown)
}

func testTooFewReplicas(t *testing.T, c *testCluster) {
	topic := c.topic(1, "min.insync.replicas=3")
	other := (c.leaderOf(t, topic) + 1) % 3
	c.Node(other).Kill()
	defer c.Node(other).Start()
	sink := openTest(t, c.Addrs(), nil, nil)
	defer sink.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var bodies []string
	for len(slices.Compact(slices.Clone(bodies))) < confirmed {
		r, err := next(ctx)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(bodies), err)
		}
		bodies = append(bodies, string(r.Body))
	}
	if repeats := len(bodies) - confirmed; repeats > unknown {
		t.Errorf("%d repeats after %d unknown outcomes", repeats, unknown)
	}
	for n, body := range slices.Compact(bodies) {
		if body != fmt.Sprint(n) {
			t.Fatalf("message %d is %s", n, body)
		}
	}
}

// TestRealTopics is about what only a real broker knows: codecs, limits, missing
// topics.
func TestRealTopics(t *testing.T) {
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
