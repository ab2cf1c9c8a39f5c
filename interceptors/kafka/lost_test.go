//go:build unix

package kafkasource

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// remake deletes a topic and recreates it.
func (r *rig) remake(topic string, partitions int) {
	r.t.Helper()
	r.remove(topic)
	r.CreateTopic(topic, partitions)
}

// remove deletes a topic and waits until no broker has its first partition any
// more: what is written until then goes into the log that is deleted.
func (r *rig) remove(topic string) {
	r.t.Helper()
	answer, err := r.client.DeleteTopics(r.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil || answer.Errors[topic] != nil {
		r.t.Fatal(err, answer)
	}
	poll.Until(r.t, 2*time.Minute, "the topic is gone", func() bool {
		return !slices.ContainsFunc(r.Addrs(), func(address string) bool { return has(address, topic) })
	})
}

// has tells whether a broker may have the first partition of a topic, whatever
// is known of its leader.
func has(address, topic string) bool {
	raw, err := net.DialTimeout("tcp", address, 20*time.Second)
	if err != nil {
		return true
	}
	conn := kafka.NewConnWith(raw, kafka.ConnConfig{Topic: topic})
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(20*time.Second)) != nil {
		return true
	}
	_, err = conn.ReadLastOffset()
	return !errors.Is(err, kafka.UnknownTopicOrPartition)
}

// fillNamed produces records whose messages have IDs of their own: those made of
// offsets are as they were in the topic before.
func (r *rig) fillNamed(topic string, partition, from, to int) {
	r.t.Helper()
	var records []kafka.Record
	for n := from; n < to; n++ {
		records = append(records, text("k", strconv.Itoa(n), "delaybridge-delay", "1h", "delaybridge-id", topic+"-"+strconv.Itoa(n)))
	}
	r.produce(topic, partition, records...)
}

// wantNamed holds that the records 0 to want-1 of fillNamed are parked once.
func wantNamed(t testing.TB, r *rig, topic string, want int) {
	t.Helper()
	left := make(map[string]bool)
	for n := range want {
		left[topic+"-"+strconv.Itoa(n)] = true
	}
	for _, m := range r.store.Await(t, want) {
		if !left[m.ID] {
			t.Errorf("%s is parked twice, or should not be there", m.ID)
		}
		delete(left, m.ID)
	}
	if len(left) > 0 {
		t.Errorf("%v are not parked", left)
	}
}

// TestTopicRecreated: what is in a topic that was recreated is read from its
// beginning, also if offsets of the one before were committed to it.
func TestTopicRecreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	src := r.run(r.source([]string{topic}, nil))
	r.fillNamed(topic, 0, 0, 100)
	r.store.Await(t, 100)
	poll.Until(t, 2*time.Minute, "that is committed", func() bool { return r.committed(topic) == 100 })

	// One page is being parked and the next waits, so nothing is fetched before
	// the new topic has its records. Whether the two still get parked is open, so
	// they are repeats.
	r.store.SetFail(errors.New("away"))
	for end := int64(101); end <= 102; end++ {
		r.fillNamed(topic, 0, 0, 1)
		poll.Until(t, 2*time.Minute, "it is fetched", func() bool { return src.seen() == end })
	}
	r.remake(topic, 1)
	r.fillNamed(topic, 0, 100, 110)
	r.store.SetFail(nil)
	r.store.Await(t, 110)
	poll.Until(t, 2*time.Minute, "it has read the new topic", func() bool { return assigned(src) == 1 && src.position() == 10 })
	r.fillNamed(topic, 0, 110, 111)
	wantNamed(t, r, topic, 111)
}

// TestTopicRecreatedWithoutIDs: records are known by more than their offsets, so none
// of a topic that was recreated is taken for one of the topic before, although they
// have the same content, and there are more of them than were read.
func TestTopicRecreatedWithoutIDs(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"earliest", "latest"} {
		t.Run("running, "+start, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic := r.topic(".delayed", 1)
			src := r.run(r.source([]string{topic}, map[string]any{"start": start}))
			poll.Until(t, 2*time.Minute, "it reads", func() bool { return assigned(src) == 1 && r.committed(topic) == 0 })
			r.fill(topic, 1, 0, 100)
			r.store.Await(t, 100)
			poll.Until(t, 2*time.Minute, "that is committed", func() bool { return r.committed(topic) == 100 })
			r.store.SetFail(errors.New("away")) // so that it is busy meanwhile, and commits to what is there then
			for end := int64(101); end <= 102; end++ {
				r.fill(topic, 1, int(end)-1, int(end))
				poll.Until(t, 2*time.Minute, "it is fetched", func() bool { return src.seen() == end })
			}
			r.remake(topic, 1)
			r.fill(topic, 1, 0, 150)
			r.store.SetFail(nil)
			poll.Until(t, 2*time.Minute, "it has read the new topic", func() bool { return r.committed(topic) == 150 })
			wantTwice(t, r, 100, 150)
			if report := src.Report(); report.Duplicates != 0 {
				t.Errorf("%+v", report)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		topic := r.topic(".delayed", 1)
		r.fill(topic, 1, 0, 100)
		src := r.run(r.source([]string{topic}, nil))
		r.store.Await(t, 100)
		src.Stop()
		r.remake(topic, 1)
		r.fill(topic, 1, 0, 150)
		r.run(r.source([]string{topic}, nil))
		poll.Until(t, 2*time.Minute, "it has read the new topic", func() bool { return r.committed(topic) == 150 })
		wantTwice(t, r, 100, 150)
	})
}

// TestTopicRecreatedWhileStopped: Kafka deletes the group's offsets together with a topic,
// so nothing tells the next one from a topic that the group has never read.
func TestTopicRecreatedWhileStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	latest := map[string]any{"start": "latest"}
	src := r.run(r.source([]string{topic}, latest))
	poll.Until(t, 2*time.Minute, "it reads", func() bool { return assigned(src) == 1 && r.committed(topic) == 0 })
	r.fillNamed(topic, 0, 0, 5)
	r.store.Await(t, 5)
	poll.Until(t, 2*time.Minute, "that is committed", func() bool { return r.committed(topic) == 5 })
	src.Stop()
	r.remake(topic, 1)
	poll.Until(t, 2*time.Minute, "the offsets are deleted", func() bool { return r.committed(topic) < 0 })
	r.fillNamed(topic, 0, 100, 110) // left out
	src = r.run(r.source([]string{topic}, latest))
	poll.Until(t, 2*time.Minute, "it is at the end", func() bool { return assigned(src) == 1 && r.committed(topic) == 10 })
	r.fillNamed(topic, 0, 5, 6)
	wantNamed(t, r, topic, 6)
}

// wantTwice holds that of fill's records 0 to end-1 are parked, and those before
// twice are so two times.
func wantTwice(t testing.TB, r *rig, twice, end int) {
	t.Helper()
	seen := make(map[string]int)
	r.store.Lock()
	defer r.store.Unlock()
	for _, m := range r.store.Parked {
		seen[string(m.Body)]++
	}
	for n := range end {
		want := 1
		if n < twice {
			want = 2
		}
		if got := seen[strconv.Itoa(n)]; got < want {
			t.Fatalf("record %d is parked %d times, want %d", n, got, want)
		}
	}
}

// olderBroker makes brokers say that they are asked for topics by name only.
type olderBroker struct {
	net.Conn
	rest []byte // of the first answer, which tells the versions
	told bool
}

func dialOlder(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &olderBroker{Conn: conn}, err
}

func (o *olderBroker) Read(b []byte) (int, error) {
	if !o.told {
		o.told = true
		var size [4]byte
		if _, err := io.ReadFull(o.Conn, size[:]); err != nil {
			return 0, err
		}
		o.rest = append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
		if _, err := io.ReadFull(o.Conn, o.rest[4:]); err != nil {
			return 0, err
		}
		const firstKey, keyLen = 4 + 4 + 2 + 4, 2 + 2 + 2
		for at := firstKey; at+keyLen <= len(o.rest); at += keyLen {
			if binary.BigEndian.Uint16(o.rest[at:]) == uint16(protocol.Fetch) {
				binary.BigEndian.PutUint16(o.rest[at+4:], 11)
			}
		}
	}
	if len(o.rest) == 0 {
		return o.Conn.Read(b)
	}
	n := copy(b, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// TestOlderBroker: where topics have no IDs, those of records hold by time and
// content.
func TestOlderBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	made := r.source([]string{topic}, nil)
	made.settings.DialContext = dialOlder
	src := r.run(made)
	r.fill(topic, 1, 0, 100)
	r.store.Await(t, 100)
	poll.Until(t, 2*time.Minute, "that is committed", func() bool { return r.committed(topic) == 100 })
	if note := r.commitOf(topic).Metadata; note != "" {
		t.Errorf("committed with %q, so the topic has an ID", note)
	}
	src.Stop()
	r.remake(topic, 1)
	r.fill(topic, 1, 0, 50)
	again := r.source([]string{topic}, nil)
	again.settings.DialContext = dialOlder
	r.run(again)
	poll.Until(t, 2*time.Minute, "it has read the new topic", func() bool { return r.committed(topic) == 50 })
	wantTwice(t, r, 50, 100)
}

// TestCommitOfTopicBefore: an offset that was committed late, when the topic had been
// recreated, is not taken for one of the new topic.
func TestCommitOfTopicBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.fill(topic, 1, 0, 100)
	src := r.run(r.source([]string{topic}, nil))
	r.store.Await(t, 100)
	poll.Until(t, 2*time.Minute, "that is committed", func() bool { return r.committed(topic) == 100 })
	src.Stop()
	before := r.commitOf(topic)
	r.remake(topic, 1)
	r.fill(topic, 1, 0, 150)
	r.commitAs(topic, kafka.OffsetCommit{Offset: 100, Metadata: before.Metadata})
	r.run(r.source([]string{topic}, map[string]any{"start": "latest"}))
	poll.Until(t, 2*time.Minute, "it has read the new topic", func() bool { return r.committed(topic) == 150 })
	wantTwice(t, r, 100, 150)
}

// TestUncleanElection: where a replica that lacks records becomes leader and gives
// their offsets to others, those are read, and what is left of the others is not read
// again.
func TestUncleanElection(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Nodes: 3, Controllers: 1, Config: map[string]string{"min.insync.replicas": "1"}})
	r := rigOf(t, cluster)
	topic := r.name + ".delayed"
	r.createOn(topic, []int{1, 2}, kafka.ConfigEntry{ConfigName: "unclean.leader.election.enable", ConfigValue: "true"})
	r.createOn("__consumer_offsets", []int{0}, kafka.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"}) // the group goes on
	src := r.run(r.source([]string{topic}, nil))
	r.fill(topic, 1, 0, 100)
	r.store.Await(t, 100)
	r.Node(2).Kill()
	r.fill(topic, 1, 100, 110)
	r.store.Await(t, 110)
	r.store.SetFail(errors.New("away")) // so that nothing is fetched before there is more than it has read
	for end := int64(111); end <= 112; end++ {
		r.fill(topic, 1, int(end)-1, int(end))
		poll.Until(t, 2*time.Minute, "it is fetched", func() bool { return src.seen() == end })
	}
	r.Node(1).Kill()
	r.Node(2).Start()
	poll.Until(t, 2*time.Minute, "the other leads", func() bool { return r.Leader(topic, 0) == 2 })
	r.fill(topic, 1, 200, 220) // at the offsets 100 to 119
	r.store.SetFail(nil)
	poll.Until(t, 2*time.Minute, "all is read", func() bool { return r.committed(topic) == 120 })
	seen := make(map[string]int)
	for _, m := range r.store.Await(t, 132) {
		seen[string(m.Body)]++
	}
	for n := range 220 {
		if want := 1; seen[strconv.Itoa(n)] != want && (n < 112 || n >= 200) {
			t.Errorf("record %d is parked %d times", n, seen[strconv.Itoa(n)])
		}
	}
	if report := src.Report(); report.Duplicates != 0 {
		t.Errorf("%+v", report)
	}
	if t.Failed() {
		t.Logf("parked: %v", seen)
	}
}

// createOn makes a topic with one partition that these brokers have.
func (r *rig) createOn(topic string, brokers []int, config ...kafka.ConfigEntry) {
	r.t.Helper()
	r.again(func() error {
		answer, err := r.client.CreateTopics(r.t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: -1, ReplicationFactor: -1,
			ReplicaAssignments: []kafka.ReplicaAssignment{{Partition: 0, Replicas: brokers}}, ConfigEntries: config}}})
		if err != nil {
			return err
		}
		return answer.Errors[topic]
	})
}

// seen is where the first partition ends, as far as it is known; -1 without one.
func (r *running) seen() int64 {
	if read := r.assigned.All(); len(read) > 0 {
		return read[0].End.Load()
	}
	return -1
}

// TestTopicRecreatedAndLonger: a topic that was not there for a moment is another,
// although it has the offset that the one before had come to.
func TestTopicRecreatedAndLonger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	gone := make(chan struct{})
	var armed atomic.Bool
	noticed := func(record slog.Record) bool {
		lost := strings.HasPrefix(record.Message, "the partition was recreated") || strings.HasPrefix(record.Message, "topics do not exist")
		return lost && armed.Load()
	}
	log := slog.New(atRecord{r.logger().Handler(), noticed, sync.OnceFunc(func() { close(gone) })})
	made, err := New("src", r.config([]string{topic}, nil), r.interceptor(), log)
	if err != nil {
		t.Fatal(err)
	}
	r.run(made)
	r.fillNamed(topic, 0, 0, 2)
	r.store.Await(t, 2)
	armed.Store(true)
	r.remove(topic)
	<-gone
	r.CreateTopic(topic, 1)
	r.fillNamed(topic, 0, 2, 12)
	r.store.Await(t, 12)
	wantNamed(t, r, topic, 12)
}

// TestCommittedBeyondEnd: an offset that the partition has not come to counts as
// none.
func TestCommittedBeyondEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		start string
		read  int // of the ten records that are there
	}{{"earliest", 10}, {"latest", 0}} {
		t.Run(test.start, func(t *testing.T) {
			r := newRig(t)
			topic := r.topic(".delayed", 1)
			r.fillNamed(topic, 0, 10-test.read, 20-test.read)
			r.commit(topic, 1000)
			src := r.run(r.source([]string{topic}, map[string]any{"start": test.start}))
			poll.Until(t, 2*time.Minute, "it is at the end", func() bool { return assigned(src) == 1 && src.position() == 10 })
			r.fillNamed(topic, 0, 20, 21)
			if got := len(r.store.Await(t, test.read+1)); got != test.read+1 {
				t.Errorf("%d messages, want %d", got, test.read+1)
			}
		})
	}
}

// commit sets the offset that the group has of partition 0.
func (r *rig) commit(topic string, offset int64) {
	r.t.Helper()
	r.commitAs(topic, kafka.OffsetCommit{Offset: offset})
}

func (r *rig) commitAs(topic string, commit kafka.OffsetCommit) {
	r.t.Helper()
	r.again(func() error { // there may be no coordinator yet
		answer, err := r.client.OffsetCommit(context.Background(), &kafka.OffsetCommitRequest{GroupID: r.name, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {commit}}})
		if err != nil {
			return err
		}
		return answer.Topics[topic][0].Error
	})
}

// committed is the offset that the group has of partition 0; -1 if none, or if that
// can't be told.
func (r *rig) committed(topic string) int64 { return r.commitOf(topic).CommittedOffset }

func (r *rig) commitOf(topic string) kafka.OffsetFetchPartition {
	answer, err := r.client.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{GroupID: r.name, Topics: map[string][]int{topic: {0}}})
	if err != nil || answer.Error != nil || len(answer.Topics[topic]) != 1 || answer.Topics[topic][0].Error != nil {
		return kafka.OffsetFetchPartition{CommittedOffset: -1}
	}
	return answer.Topics[topic][0]
}

// TestForgottenMarks: nothing of a log that no longer exists is committed, neither what
// was marked nor what could not be committed before.
func TestForgottenMarks(t *testing.T) {
	p := newProgress()
	at := func(offset int64) position { return position{point: point{offset: offset}} }
	p.mark("a", 0, at(1000))
	p.mark("b", 0, at(5))
	taken := p.take()
	p.mark("a", 1, at(1000))
	p.forget("a", true)
	p.putBack(taken)
	p.mark("a", 0, at(1001))
	left := p.take()
	if len(left) != 1 || left["b"][0] != at(5) {
		t.Errorf("%v is left, want b only", left)
	}
}

// TestLatestIsForWhatIsThere: what comes to be while the source runs is read as a
// whole, also with "latest".
func TestLatestIsForWhatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.fillNamed(topic, 0, 0, 10)
	src := r.run(r.source([]string{topic, r.name + ".later"}, map[string]any{"start": "latest"}))
	poll.Until(t, 2*time.Minute, "it has begun", func() bool { return assigned(src) == 1 && src.position() == 10 })
	r.grow(topic, 2)
	r.fillNamed(topic, 1, 10, 20)
	r.store.Await(t, 10)
	later := r.topic(".later", 1)
	r.fillNamed(later, 0, 20, 30)
	if got := len(r.store.Await(t, 20)); got != 20 {
		t.Errorf("%d messages, want 20", got)
	}
}
