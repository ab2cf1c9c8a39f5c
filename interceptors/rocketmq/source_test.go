//go:build unix

package rocketmqsource

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// soon is a time within max_delay.
var soon = time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()

func TestRecordsBecomeMessages(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	at, ms := soon.Format(time.RFC3339), strconv.FormatInt(soon.UnixMilli(), 10)
	records := []struct {
		name string
		sent one
		want core.Message
	}{
		{"native time", one{"v", props("delaybridge-deliver-at", at)}, core.Message{Body: []byte("v"), DeliverAt: soon}},
		{"native delay", one{"\x00\xff\x01\x02", props("delaybridge_delay", "36h")}, core.Message{Body: []byte("\x00\xff\x01\x02"), Delay: 36 * time.Hour}},
		{"timer, in a batch", one{"v", props("TIMER_DELIVER_MS", ms)}, core.Message{Body: []byte("v"), DeliverAt: soon}},
		{"level, in a batch", one{"v", props("DELAY", "18", "a", "1")}, core.Message{Body: []byte("v"), Delay: 2 * time.Hour, Headers: headers("a", "1")}},
		{"keys, tags, sharding key", one{"v", props("delaybridge-delay", "1h", "KEYS", "k1 k2", "TAGS", "paid", "__SHARDINGKEY", "c 7")},
			core.Message{Key: []byte("c 7"), Body: []byte("v"), Delay: time.Hour, Options: map[string]string{"keys": "k1 k2", "tags": "paid"}}},
		{"sharding key of the Go client", one{"v", props("SHARDING_KEY", "c", "delaybridge-delay", "1h")}, core.Message{Key: []byte("c"), Body: []byte("v"), Delay: time.Hour}},
		{"the client's and the broker's own", one{"v", props("UNIQ_KEY", "7F00", "WAIT", "true", "delaybridge-delay", "1h", "b", "2", "TRACE_ON", "true", "TIMER_OUT_MS", "1", "__RMQ.x", "y")},
			core.Message{Body: []byte("v"), Delay: time.Hour, Headers: headers("b", "2")}},
		{"the last counts, empty is none", one{"v", props("a", "1", "b", "2", "a", "3", "c", "", "delaybridge-delay", "1h")},
			core.Message{Body: []byte("v"), Delay: time.Hour, Headers: headers("a", "3", "b", "2")}},
		{"without an end", one{"v", "delaybridge-delay\x011h\x02a\x01ü"}, core.Message{Body: []byte("v"), Delay: time.Hour, Headers: headers("a", "ü")}},
		{"own id and time to live", one{"v", props("delaybridge-delay", "1h", "delaybridge-id", "mine", "delaybridge-ttl", "3h", "delaybridge-key", "k", "__SHARDINGKEY", "c")},
			core.Message{ID: "mine", Key: []byte("k"), Body: []byte("v"), Delay: time.Hour, TTL: 3 * time.Hour}},
		{"empty", one{"", props("delaybridge-delay", "1h")}, core.Message{Body: []byte{}, Delay: time.Hour}},
	}
	var batch []one
	for _, record := range records {
		batch = append(batch, record.sent)
	}
	r.sendBatch(topic, 0, batch...)
	stored := r.read(topic, len(records))
	src := r.run(r.source([]string{topic}, nil))
	parked := r.store.Await(t, len(records))
	for n, record := range records {
		want := record.want
		want.Sink, want.Topic = "out", "orders"
		if want.ID == "" {
			want.ID = fmt.Sprintf("r:src:%s:broker-a:0:%d:%s", topic, n, strconv.FormatInt(stored[n].stored, 36))
		}
		if diff := cmp.Diff(&want, parked[n]); diff != "" {
			t.Errorf("%s: %s", record.name, diff)
		}
	}
	if err := src.Stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if report := src.Report(); report.Parked != uint64(len(records)) || report.Rejected+report.Duplicates+report.Retried > 0 {
		t.Errorf("report: %+v", report)
	}
}

// TestDelayFromRecord: a delay counts from when the broker has stored the message.
func TestDelayFromRecord(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.sendBatch(topic, 0, one{"v", props("delaybridge-delay", "1h")})
	stored := r.read(topic, 1)[0].sent()
	r.run(r.source([]string{topic}, map[string]any{"delay_from": "record"}))
	if m := r.store.Await(t, 1)[0]; m.Delay != 0 || !m.DeliverAt.Equal(stored.Add(time.Hour)) {
		t.Errorf("stored at %s, parked with delay %s, deliver_at %s", stored, m.Delay, m.DeliverAt)
	}
}

func headers(texts ...string) (made []core.Header) {
	for n := 0; n < len(texts); n += 2 {
		made = append(made, core.Header{Name: texts[n], Value: []byte(texts[n+1])})
	}
	return made
}

// TestForOtherSinks: options that only a RocketMQ sink knows become headers.
func TestForOtherSinks(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.sendBatch(topic, 0, one{"v", props("a", "1", "delaybridge-delay", "1h", "TAGS", "paid", "KEYS", "k")})
	r.run(r.source([]string{topic}, map[string]any{"properties": "headers", "topic": "{topic}", "trim_suffix": "-delayed"}))
	got := r.store.Await(t, 1)[0]
	if diff := cmp.Diff(headers("a", "1", "KEYS", "k", "TAGS", "paid"), got.Headers); diff != "" || got.Options != nil {
		t.Errorf("options %q, headers: %s", got.Options, diff)
	}
	if want := strings.TrimSuffix(topic, "-delayed"); got.Topic != want {
		t.Errorf("topic %s, want %s", got.Topic, want)
	}
}

// TestTags: brokers compare hashes only, and "Aa" has that of "BB".
func TestTags(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	for n, tag := range []string{"Aa", "BB", "cc", "Aa", "dd"} {
		r.send(topic, 0, strconv.Itoa(n), props("delaybridge-delay", "1h", "TAGS", tag))
	}
	r.send(topic, 0, "none", props("delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"tags": []string{"Aa", "dd"}}))
	var bodies []string
	for _, m := range r.store.Await(t, 3) {
		bodies = append(bodies, string(m.Body))
	}
	if !slices.Equal(bodies, []string{"0", "3", "4"}) {
		t.Errorf("parked %q", bodies)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
}

func TestUntagged(t *testing.T) {
	r := newRig(t)
	tests := []struct {
		settings map[string]any
		want     time.Duration
	}{
		{map[string]any{"untagged": "now"}, 0},
		{map[string]any{"untagged": "delay", "default_delay": "90m"}, 90 * time.Minute},
	}
	for n, test := range tests {
		topic := r.topic(fmt.Sprintf("-%d", n), 1)
		test.settings["group"] = topic
		r.send(topic, 0, topic, props("a", "1"))
		r.run(r.source([]string{topic}, test.settings))
		got := r.store.Await(t, n+1)[n]
		if string(got.Body) != topic || got.Delay != test.want || !got.DeliverAt.IsZero() {
			t.Errorf("%v: %q due in %s at %s", test.settings, got.Body, got.Delay, got.DeliverAt)
		}
	}
}

// TestLatest: what was there before is not read, what comes while the source is
// away is.
func TestLatest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.send(topic, 0, "before", props("delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"start": "latest"}))
	poll.Until(t, time.Minute, "a place to begin", func() bool { return r.committed(topic, 0) == 1 })
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	r.send(topic, 0, "away", props("delaybridge-delay", "1h"))
	r.run(r.source([]string{topic}, map[string]any{"start": "latest"}))
	if got := r.store.Await(t, 1)[0]; string(got.Body) != "away" {
		t.Errorf("parked %q", got.Body)
	}
}

// TestPickUpSpeed: a message that comes while nothing else does is not kept
// waiting for the end of a poll, which is after 15 s. Where it is forgotten to
// wake a poll, brokers look every five.
func TestPickUpSpeed(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.run(r.source([]string{topic}, nil))
	r.send(topic, 0, "first", props("delaybridge-delay", "1h"))
	r.store.Await(t, 1)
	begin := time.Now()
	r.send(topic, 0, "second", props("delaybridge-delay", "1h"))
	r.store.Await(t, 2)
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("picked up after %s", took)
	}
}
