//go:build unix

package kafkasource

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// soon is a time within max_delay.
var soon = time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()

func TestRecordsBecomeMessages(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	at := soon.Format(time.RFC3339)
	records := []struct {
		name   string
		record kafka.Record
		want   core.Message
	}{
		{"native time", text("k", "v", "delaybridge-deliver-at", at), core.Message{Key: []byte("k"), Body: []byte("v"), DeliverAt: soon}},
		{"native delay", text("k", "v", "Delaybridge_Delay", "36h"), core.Message{Key: []byte("k"), Body: []byte("v"), Delay: 36 * time.Hour}},
		{"cloud event", text("k", "v", "ce_id", "1", "ce_deliverat", at, "ce_type", "x"), core.Message{Key: []byte("k"), Body: []byte("v"), DeliverAt: soon,
			Headers: []core.Header{{Name: "ce_id", Value: []byte("1")}, {Name: "ce_type", Value: []byte("x")}}}},
		{"etf1", text("k", "v", "scheduler-epoch", strconv.FormatInt(soon.Unix(), 10), "scheduler-target-key", "k2"), core.Message{Key: []byte("k2"), Body: []byte("v"), DeliverAt: soon}},
		{"timebridge", text("k", "v", "X-Timebridge-When", at, "X-Timebridge-Where", "orders"), core.Message{Key: []byte("k"), Body: []byte("v"), DeliverAt: soon}},
		{"own id", text("k", "v", "delaybridge-delay", "0s", "delaybridge-id", "mine"), core.Message{ID: "mine", Key: []byte("k"), Body: []byte("v")}},
		{"nulls", kafka.Record{Headers: []kafka.Header{{Key: "n"}, {Key: "delaybridge-delay", Value: []byte("1h")}, {Key: "e", Value: []byte{}}}},
			core.Message{Delay: time.Hour, Headers: []core.Header{{Name: "n"}, {Name: "e", Value: []byte{}}}}},
		{"empty", text("", "", "delaybridge-delay", "1h"), core.Message{Key: []byte{}, Body: []byte{}, Delay: time.Hour}},
		{"bytes and repeats", text("\x00\xff", "\xfe\x00", "b", "2", "delaybridge-ttl", "40h", "a", "\xff", "b", "1", "delaybridge-delay", "1h"),
			core.Message{Key: []byte("\x00\xff"), Body: []byte("\xfe\x00"), Delay: time.Hour, TTL: 40 * time.Hour,
				Headers: []core.Header{{Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("\xff")}, {Name: "b", Value: []byte("1")}}}},
	}
	var all []kafka.Record
	for _, one := range records {
		all = append(all, one.record)
	}
	r.produce(topic, 0, all...)
	src := r.run(r.source([]string{topic}, nil))
	parked := r.store.Await(t, len(records))
	for n, one := range records {
		want := one.want
		want.Sink, want.Topic = "out", "orders"
		if want.ID == "" {
			want.ID = parked[n].ID
			if position := fmt.Sprintf("k:src:%s:0:%d", topic, n); positionOf(want.ID) != position {
				t.Errorf("%s: ID %s, want that of %s", one.name, want.ID, position)
			}
		}
		if diff := cmp.Diff(&want, parked[n]); diff != "" {
			t.Errorf("%s: %s", one.name, diff)
		}
	}
	if err := src.Stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if report := src.Report(); report.Parked != uint64(len(records)) || report.Rejected+report.Duplicates+report.Retried > 0 {
		t.Errorf("report: %+v", report)
	}
}

// TestRejected holds what the reject topic gets against what was produced.
func TestRejected(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1, "max.message.bytes=16777216"), r.topic(".rejected", 1)
	large := bytes.Repeat([]byte("x"), 10<<20)
	r.produce(topic, 0, text("a", "untagged", "h", "1", "h", "2"))
	r.produce(topic, 0, text("b", "twice", "delaybridge-delay", "1h", "delaybridge-deliver-at", soon.Format(time.RFC3339)))
	r.produce(topic, 0, text("c", "system", "delaybridge-delay", "1h", "delaybridge-topic", "__consumer_offsets"))
	r.produce(topic, 0, text("d", "loop", "delaybridge-delay", "1h", "delaybridge-topic", topic))
	r.produce(topic, 0, text("e", string(large), "delaybridge-delay", "1h"))
	r.produce(topic, 0, text("f", strings.Repeat("x", 300<<10), "delaybridge-delay", "1h"))
	r.produce(topic, 0, text("g", "returned", "delaybridge-id", "1", "delaybridge-attempt", "1", "delaybridge-deliver-at", "2026-01-02T15:04:05.000Z"))
	r.produce(topic, 0, text("z", "good", "delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects, "allow_target_headers": true}))
	wants := []struct{ key, reason, offset string }{
		{"a", "deliver_at: is missing", "0"},
		{"b", "can't be used together", "1"},
		{"c", "is reserved for the broker", "2"},
		{"d", "is read by this source", "3"},
		{"e", "body: is larger than 262144 bytes", "4"},
		{"f", "body: is larger than 262144 bytes", "5"},
		{"g", "deliver_at: is missing", "6"},
	}
	got := r.read(rejects, len(wants))
	for n, want := range wants {
		f := got[n]
		if string(f.key) != want.key || !strings.Contains(f.header("delaybridge-reject-reason"), want.reason) ||
			f.header("delaybridge-source-topic") != topic || f.header("delaybridge-source-partition") != "0" || f.header("delaybridge-source-offset") != want.offset {
			t.Errorf("rejected %d: key %q, headers %q, want %+v", n, f.key, f.headers, want)
		}
	}
	if string(got[0].value) != "untagged" || got[0].headers[0].Name != "h" || string(got[0].headers[1].Value) != "2" {
		t.Errorf("the first has lost something: %q %q", got[0].value, got[0].headers)
	}
	if got[4].value != nil || got[4].header("delaybridge-reject-left-out") != "value" {
		t.Errorf("the large one has a value of %d bytes and the headers %q", len(got[4].value), got[4].headers)
	}
	if len(got[5].value) != 300<<10 {
		t.Errorf("the smaller one has a value of %d bytes", len(got[5].value))
	}
	parked := r.store.Await(t, 1)
	if string(parked[len(parked)-1].Body) != "good" {
		t.Errorf("the last one parked is %q", parked[len(parked)-1].Body)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if report := src.Report(); report.Rejected != uint64(len(wants)) || report.Parked != 1 {
		t.Errorf("%+v", report)
	}
}

func TestConflictIsRejected(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1), r.topic(".rejected", 1)
	r.produce(topic, 0, text("k", "first", "delaybridge-delay", "1h", "delaybridge-id", "same"))
	r.produce(topic, 0, text("k", "second", "delaybridge-delay", "1h", "delaybridge-id", "same"))
	r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects}))
	got := r.read(rejects, 1)
	if string(got[0].value) != "second" || !strings.Contains(got[0].header("delaybridge-reject-reason"), core.ErrConflict.Error()) {
		t.Errorf("rejected %q, %q", got[0].value, got[0].headers)
	}
}

func TestUntagged(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.produce(topic, 0, text("k", "v"))
	r.run(r.source([]string{topic}, map[string]any{"untagged": "delay", "default_delay": "2h", "topic": "{topic}", "trim_suffix": ".delayed"}))
	m := r.store.Await(t, 1)[0]
	if m.Delay != 2*time.Hour || m.Topic != r.name {
		t.Errorf("parked %+v", m)
	}
}

// TestDelayFromRecord: a delay counts from the record's timestamp.
func TestDelayFromRecord(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	sent := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	record := text("k", "v", "delaybridge-delay", "90m")
	record.Time = sent
	r.produce(topic, 0, record)
	r.run(r.source([]string{topic}, map[string]any{"delay_from": "record"}))
	if m := r.store.Await(t, 1)[0]; m.Delay != 0 || !m.DeliverAt.Equal(sent.Add(90*time.Minute)) {
		t.Errorf("parked with delay %s, deliver_at %s", m.Delay, m.DeliverAt)
	}
}

// TestStopsLoudly: without a reject topic a bad record ends the source, and what
// came before it is not read again.
func TestStopsLoudly(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	r.produce(topic, 0, text("a", "good", "delaybridge-delay", "1h"))
	r.produce(topic, 0, text("b", "bad"))
	for range 2 { // it does not come to pass by itself
		src := r.run(r.source([]string{topic}, nil))
		<-src.Ended
		err := src.Err
		refused, ok := errors.AsType[*source.RefusedError](err)
		if !ok || positionOf(refused.ID) != fmt.Sprintf("k:src:%s:0:1", topic) || !strings.Contains(err.Error(), topic) {
			t.Fatalf("Run returned %v", err)
		}
	}
	if parked := r.store.Await(t, 1); len(parked) != 1 {
		t.Errorf("%d parked", len(parked))
	}
}

// TestStoreUnreachable: nothing is skipped and nothing rejected while the store fails,
// whatever the way.
func TestStoreUnreachable(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 2), r.topic(".rejected", 1)
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects}))
	produced := 0
	for _, fault := range []error{core.ErrUnavailable, core.ErrFull, core.ErrUnknown, errors.New("unheard of")} {
		r.store.SetFail(fault)
		for range 50 {
			r.produce(topic, produced%2, text("k", strconv.Itoa(produced), "delaybridge-delay", "1h"))
			produced++
		}
		r.store.Lock()
		before := r.store.Failed
		r.store.Unlock()
		r.store.Until(t, "some tries", func() bool { return r.store.Failed > before+3 })
		r.store.SetFail(nil)
		r.store.Await(t, produced)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, produced)
	if report := src.Report(); report.Rejected != 0 || report.Retried == 0 {
		t.Errorf("%+v", report)
	}
}

// positionOf is what an ID says of where the record is.
func positionOf(id string) string { return id[:max(strings.LastIndexByte(id, ':'), 0)] }

// wantOnce holds that the bodies 0 to n-1 are parked, once each, and in the
// order of each partition.
func wantOnce(t testing.TB, s *sourcetest.Store, n int) {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	seen := make(map[string]int)
	last := make(map[string]int64)
	for _, m := range s.Parked {
		seen[string(m.Body)]++
		position := positionOf(m.ID)
		at := strings.LastIndexByte(position, ':')
		offset, _ := strconv.ParseInt(position[at+1:], 10, 64)
		if before, ok := last[position[:at]]; ok && offset <= before {
			t.Errorf("%s was parked after offset %d", m.ID, before)
		}
		last[position[:at]] = offset
	}
	for i := range n {
		if seen[strconv.Itoa(i)] != 1 {
			t.Fatalf("%d is parked %d times", i, seen[strconv.Itoa(i)])
		}
	}
	if len(seen) != n {
		t.Errorf("%d different messages, want %d", len(seen), n)
	}
}
