//go:build unix

package kafkasource

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// fill produces the bodies from to to-1, spread over partitions.
func (r *rig) fill(topic string, partitions, from, to int) {
	r.t.Helper()
	const batch = 100
	byPartition := make([][]kafka.Record, partitions)
	for n := from; n < to; n++ {
		byPartition[n%partitions] = append(byPartition[n%partitions], text("k"+strconv.Itoa(n%7), strconv.Itoa(n), "delaybridge-delay", "1h"))
	}
	for partition, records := range byPartition {
		for len(records) > 0 {
			some := records[:min(batch, len(records))]
			r.produce(topic, partition, some...)
			records = records[len(some):]
		}
	}
}

// TestRebalance: members come and go under load, and all is parked once.
func TestRebalance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const partitions = 4
	topic := r.topic(".delayed", partitions)
	produced := 0
	fill := func() { r.fill(topic, partitions, produced, produced+2000); produced += 2000 }
	fill()
	first := r.run(r.source([]string{topic}, nil))
	r.store.Await(t, 100)
	second := r.run(r.source([]string{topic}, nil))
	fill()
	poll.Until(t, 2*time.Minute, "both have partitions", func() bool { return assigned(first) == 2 && assigned(second) == 2 })
	fill()
	r.store.Await(t, produced-1000)
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	poll.Until(t, 2*time.Minute, "one has all partitions", func() bool { return assigned(second) == partitions })
	fill()
	r.store.Await(t, produced)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, produced)
	t.Logf("first %+v, second %+v", first.Report(), second.Report())

	// What was committed at the end is not read again.
	third := r.run(r.source([]string{topic}, nil))
	fill()
	r.store.Await(t, produced)
	poll.Until(t, 2*time.Minute, "the third is through", func() bool { return third.Report().Parked+third.Report().Duplicates >= 2000 })
	if report := third.Report(); report.Duplicates != 0 {
		t.Errorf("the third has %+v", report)
	}
}

func assigned(r *running) int { return len(r.assigned.All()) }

// TestKilled: a member that is gone without a word has parked what it has not
// committed. The next reads that again, and parks nothing twice.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 2)
	victim := r.source([]string{topic}, hasty(nil))
	var net sourcetest.Cable
	victim.settings.DialContext = net.Dial
	dying := r.run(victim)
	poll.Until(t, 2*time.Minute, "it has partitions", func() bool { return assigned(dying) == 2 })
	r.store.Lock()
	r.store.After = func() {
		if len(r.store.Parked) >= 1500 {
			net.Sever(true) // before Park has returned, so nothing of this is committed
		}
	}
	r.store.Unlock()
	r.fill(topic, 2, 0, 3000)
	r.store.Await(t, 1500)
	dying.Stop()
	next := r.run(r.source([]string{topic}, hasty(nil)))
	r.store.Await(t, 3000)
	poll.Until(t, 2*time.Minute, "all is read", func() bool { return next.Report().Lag == 0 && next.Report().Parked > 0 })
	if err := next.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, 3000)
	if next.Report().Duplicates == 0 {
		t.Error("nothing was read twice, so nothing was proved")
	}
	t.Logf("the victim %+v, the next %+v", dying.Report(), next.Report())
}

// TestBrokerUnreachable: a broker that comes back is read from where it was.
func TestBrokerUnreachable(t *testing.T) {
	t.Parallel()
	r := rigOf(t, servers.Kafka(t, servers.KafkaOptions{}))
	topic := r.topic(".delayed", 2)
	src := r.run(r.source([]string{topic}, hasty(nil)))
	r.fill(topic, 2, 0, 1000)
	r.store.Await(t, 1000)
	r.Node(0).Kill()
	r.Node(0).Start()
	r.fill(topic, 2, 1000, 2000) // some of it maybe twice, as the test's producer tries again
	poll.Until(t, 2*time.Minute, "all is read", func() bool { return src.Report().Lag == 0 && src.ends(r, topic) })
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	wantAllOf(t, r, topic, 2)
}

// ends tells whether all that there is in a topic of two partitions was read.
func (r *running) ends(g *rig, topic string) bool {
	read := r.assigned.All()
	if len(read) != 2 {
		return false
	}
	for _, p := range read {
		if end, err := g.end(topic, p.number); err != nil || p.Parked.Load() != end {
			return false
		}
	}
	return true
}

func (r *rig) end(topic string, partition int) (int64, error) {
	answer, err := r.client.ListOffsets(context.Background(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.LastOffsetOf(partition)}}})
	if err != nil {
		return 0, err
	}
	return answer.Topics[topic][0].LastOffset, answer.Topics[topic][0].Error
}

// wantAllOf holds that every record of a topic is parked once.
func wantAllOf(t testing.TB, r *rig, topic string, partitions int) {
	t.Helper()
	parked := make(map[string]bool)
	for _, m := range r.store.Parked {
		parked[positionOf(m.ID)] = true
	}
	total := 0
	for partition := range partitions {
		end, err := r.end(topic, partition)
		if err != nil {
			t.Fatal(err)
		}
		for offset := range end {
			if id := fmt.Sprintf("k:src:%s:%d:%d", topic, partition, offset); !parked[id] {
				t.Fatalf("%s is not parked", id)
			}
		}
		total += int(end)
	}
	if len(parked) != total || len(r.store.Parked) != total {
		t.Errorf("%d parked, %d different, of %d", len(r.store.Parked), len(parked), total)
	}
}

// TestNotThereYet: a source may be started before Kafka and before its topics.
func TestNotThereYet(t *testing.T) {
	r := newRig(t)
	nowhere := r.source([]string{r.name + ".delayed"}, map[string]any{"brokers": []string{"127.0.0.1:1"}})
	idle := r.run(nowhere)
	if err := idle.Stop(); err != nil {
		t.Error(err)
	}
	r.run(r.source([]string{r.name + ".delayed"}, nil))
	topic := r.topic(".delayed", 1)
	r.fill(topic, 1, 0, 10)
	r.store.Await(t, 10)
}

// TestOneNotThereYet: a topic that does not exist keeps no other from being read.
func TestOneNotThereYet(t *testing.T) {
	r := newRig(t)
	there := r.topic(".delayed", 2)
	src := r.run(r.source([]string{r.name + ".later", there}, nil))
	r.fill(there, 2, 0, 10)
	r.store.Await(t, 10)
	later := r.topic(".later", 1)
	r.fill(later, 1, 10, 20)
	r.store.Await(t, 20)
	poll.Until(t, 2*time.Minute, "three partitions are read", func() bool { return assigned(src) == 3 })
	wantOnce(t, r.store, 20)
}

// TestSilentBroker: one that never answers does not keep a source from ending.
func TestSilentBroker(t *testing.T) {
	address, taken := silent(t)
	in := core.NewBridge(sourcetest.NewStore(), core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor
	src, err := New("src", json.RawMessage(`{"brokers": ["`+address+`"], "topics": ["a"], "sink": "out", "topic": "b", "on_bad_record": "stop", "request_timeout": "10m"}`), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	src.settings.stopGrace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx) }()
	<-taken
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it has not ended")
	}
}

// TestStart: where to begin, and that it is where one goes on.
func TestStart(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.fill(topic, 1, 0, 10)
	late := map[string]any{"start": "latest"}
	src := r.run(r.source([]string{topic}, late))
	poll.Until(t, 2*time.Minute, "it has begun", func() bool { return assigned(src) == 1 && src.position() == 10 })
	src.Stop()
	r.produce(topic, 0, text("k", "0", "delaybridge-delay", "1h"))
	r.run(r.source([]string{topic}, late))
	r.store.Await(t, 1)
	wantOnce(t, r.store, 1)
}

// position is where the first partition is parked to; -1 without one.
func (r *running) position() int64 {
	if read := r.assigned.All(); len(read) > 0 {
		return read[0].Parked.Load()
	}
	return -1
}

// TestCompressed: every way of compression, and a batch that is small only as
// long as it is compressed.
func TestCompressed(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1), r.topic(".rejected", 1)
	n := 0
	for _, compression := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		for range 3 {
			var records []kafka.Record
			for range 600 {
				records = append(records, text("k", strconv.Itoa(n), "delaybridge-delay", "1h"))
				n++
			}
			r.produceBatch(topic, 0, compression, records...)
		}
		r.produceBatch(topic, 0, compression, text("bomb", strings.Repeat("0", 16<<20), "delaybridge-delay", "1h"), text("innocent", "too", "delaybridge-delay", "1h"))
	}
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects, "max_batch_bytes": 8 << 20}))
	r.store.Await(t, n)
	for _, f := range r.read(rejects, 4) {
		first, _ := strconv.Atoi(f.header("delaybridge-source-offset"))
		last, _ := strconv.Atoi(f.header("delaybridge-source-last-offset"))
		if last != first+1 || f.key != nil || f.value != nil || !strings.Contains(f.header("delaybridge-reject-reason"), "batch: is larger than 8388608 bytes") {
			t.Errorf("rejected %q", f.headers)
		}
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, n)
}

// TestLargeBatch: a batch that is larger than what is read at once, and one that
// is larger than what is read at all.
func TestLargeBatch(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1, "max.message.bytes=16777216"), r.topic(".rejected", 1)
	large := func(body string, size int) { // one batch; its filler is in a header that is too large for a message
		r.produce(topic, 0, text("k", body, "delaybridge-delay", "1h"), text("k", strings.Repeat("x", size)))
	}
	large("0", 2<<20)
	large("lost", 6<<20)
	r.produce(topic, 0, text("k", "1", "delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects, "fetch_bytes": 1 << 20, "max_batch_bytes": 4 << 20}))
	r.store.Await(t, 2)
	got := r.read(rejects, 2)
	if got[0].header("delaybridge-reject-left-out") != "value" || got[0].header("delaybridge-source-offset") != "1" {
		t.Errorf("first: %q", got[0].headers)
	}
	if got[1].header("delaybridge-source-offset") != "2" || got[1].header("delaybridge-source-last-offset") != "3" || got[1].value != nil {
		t.Errorf("second: %q", got[1].headers)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, 2)
}
