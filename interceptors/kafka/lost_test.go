//go:build unix

package kafkadoor

import (
	"context"
	"errors"
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
)

// remake deletes a topic and makes it anew.
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
	waitFor(r.t, "the topic is gone", func() bool {
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
	for _, m := range r.store.await(t, want) {
		if !left[m.ID] {
			t.Errorf("%s is parked twice, or should not be there", m.ID)
		}
		delete(left, m.ID)
	}
	if len(left) > 0 {
		t.Errorf("%v are not parked", left)
	}
}

// TestTopicMadeAnew: what is in a topic that was made anew is read from its
// beginning, also if offsets of the one before were committed to it.
func TestTopicMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	door := r.run(r.intake([]string{topic}, nil))
	r.fillNamed(topic, 0, 0, 100)
	r.store.await(t, 100)
	waitFor(t, "that is committed", func() bool { return r.committed(topic) == 100 })

	// One page is being parked and the next waits, so nothing is fetched before
	// the new topic has its records. Whether the two still get parked is open, so
	// they are repeats.
	r.store.setFail(errors.New("away"))
	for end := int64(101); end <= 102; end++ {
		r.fillNamed(topic, 0, 0, 1)
		waitFor(t, "it is fetched", func() bool { return door.seen() == end })
	}
	r.remake(topic, 1)
	r.fillNamed(topic, 0, 100, 110)
	r.store.setFail(nil)
	r.store.await(t, 110)
	waitFor(t, "it has read the new topic", func() bool { return assigned(door) == 1 && door.position() == 10 })
	r.fillNamed(topic, 0, 110, 111)
	wantNamed(t, r, topic, 111)
}

// seen is where the first partition ends, as far as it is known; -1 without one.
func (r *running) seen() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.partitions) == 0 {
		return -1
	}
	return r.partitions[0].end.Load()
}

// TestTopicMadeAnewAndLonger: a topic that was not there for a moment is another,
// although it has the offset that the one before had come to.
func TestTopicMadeAnewAndLonger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	gone := make(chan struct{})
	var armed atomic.Bool
	noticed := func(record slog.Record) bool {
		lost := strings.HasPrefix(record.Message, "partition is not the one") || strings.HasPrefix(record.Message, "topics do not exist")
		return lost && armed.Load()
	}
	log := slog.New(atRecord{r.logger().Handler(), noticed, sync.OnceFunc(func() { close(gone) })})
	made, err := New("door", r.config([]string{topic}, nil), r.interceptor(), log)
	if err != nil {
		t.Fatal(err)
	}
	r.run(made)
	r.fillNamed(topic, 0, 0, 2)
	r.store.await(t, 2)
	armed.Store(true)
	r.remove(topic)
	<-gone
	r.CreateTopic(topic, 1)
	r.fillNamed(topic, 0, 2, 12)
	r.store.await(t, 12)
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
			door := r.run(r.intake([]string{topic}, map[string]any{"start": test.start}))
			waitFor(t, "it is at the end", func() bool { return assigned(door) == 1 && door.position() == 10 })
			r.fillNamed(topic, 0, 20, 21)
			if got := len(r.store.await(t, test.read+1)); got != test.read+1 {
				t.Errorf("%d messages, want %d", got, test.read+1)
			}
		})
	}
}

// commit sets the offset that the group has of partition 0.
func (r *rig) commit(topic string, offset int64) {
	r.t.Helper()
	r.again(func() error { // there may be no coordinator yet
		answer, err := r.client.OffsetCommit(context.Background(), &kafka.OffsetCommitRequest{GroupID: r.name, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Offset: offset}}}})
		if err != nil {
			return err
		}
		return answer.Topics[topic][0].Error
	})
}

// committed is the offset that the group has of partition 0; -1 if none, or if that
// can't be told.
func (r *rig) committed(topic string) int64 {
	answer, err := r.client.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{GroupID: r.name, Topics: map[string][]int{topic: {0}}})
	if err != nil || answer.Error != nil || len(answer.Topics[topic]) != 1 || answer.Topics[topic][0].Error != nil {
		return -1
	}
	return answer.Topics[topic][0].CommittedOffset
}

// TestForgottenMarks: nothing of a log that is no more is committed, neither what
// was marked nor what could not be committed before.
func TestForgottenMarks(t *testing.T) {
	p := newProgress()
	p.mark("a", 0, 1000)
	p.mark("b", 0, 5)
	taken := p.take()
	p.mark("a", 1, 1000)
	p.forget("a")
	p.putBack(taken)
	p.mark("a", 0, 1001)
	left := p.take()
	if len(left) != 1 || left["b"][0] != 5 {
		t.Errorf("%v is left, want b only", left)
	}
}

// TestLatestIsForWhatIsThere: what comes to be while the intake runs is read as a
// whole, also with "latest".
func TestLatestIsForWhatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.fillNamed(topic, 0, 0, 10)
	door := r.run(r.intake([]string{topic, r.name + ".later"}, map[string]any{"start": "latest"}))
	waitFor(t, "it has begun", func() bool { return assigned(door) == 1 && door.position() == 10 })
	r.grow(topic, 2)
	r.fillNamed(topic, 1, 10, 20)
	r.store.await(t, 10)
	later := r.topic(".later", 1)
	r.fillNamed(later, 0, 20, 30)
	if got := len(r.store.await(t, 20)); got != 20 {
		t.Errorf("%d messages, want 20", got)
	}
}
