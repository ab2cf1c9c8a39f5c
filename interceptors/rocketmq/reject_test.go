//go:build unix

package rocketmqsource

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// TestRejected holds what the reject topic gets against what was sent.
func TestRejected(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic("-delayed", 1), r.topic("-rejected", 1)
	at := strconv.FormatInt(soon.UnixMilli(), 10)
	tests := []struct {
		sent    one
		reason  string
		leftOut string
	}{
		{one{"untagged \xff", props("KEYS", "k", "TAGS", "paid", "h", "ü", "UNIQ_KEY", "77")}, "deliver_at: is missing", ""},
		{one{"two times", props("DELAY", "18", "TIMER_DELIVER_MS", at)}, "can't be used together", ""},
		{one{"retry", props("delaybridge-delay", "1h", "delaybridge-topic", "%RETRY%g")}, "is reserved for the broker", ""},
		{one{"dlq", props("delaybridge-delay", "1h", "delaybridge-topic", "%DLQ%g")}, "is reserved for the broker", ""},
		{one{"schedule", props("delaybridge-delay", "1h", "delaybridge-topic", "SCHEDULE_TOPIC_XXXX")}, "is reserved for the broker", ""},
		{one{"system", props("delaybridge-delay", "1h", "delaybridge-topic", "RMQ_SYS_TRACE_TOPIC")}, "is reserved for the broker", ""},
		{one{"loop", props("delaybridge-delay", "1h", "delaybridge-topic", topic)}, "is read by this source", ""},
		{one{"no sink", props("delaybridge-delay", "1h", "delaybridge-sink", "nowhere")}, "no sink", ""},
		{one{"circling", props("delaybridge-delay", "1h", "delaybridge-hop", "1000")}, "limits.max_hops", ""},
		{one{strings.Repeat("x", 300<<10), props("delaybridge-delay", "1h")}, "body: is larger than", ""},
		{one{strings.Repeat("x", 4<<20), ""}, "deliver_at: is missing", "body"}, // fits alone, but not in a batch
		{one{"long", props("delaybridge-delay", "1h", "h", strings.Repeat("x", 31700))}, "headers: ", "properties"},
	}
	for _, test := range tests {
		if len(test.sent.body) > 1<<20 || len(test.sent.properties) > 30<<10 {
			r.send(topic, 0, test.sent.body, test.sent.properties)
		} else {
			r.sendBatch(topic, 0, test.sent)
		}
	}
	r.send(topic, 0, "good", props("delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects, "allow_target_headers": true}))
	for n, got := range r.read(rejects, len(tests)) {
		test := tests[n]
		name := core.Shorten(test.sent.body, 20)
		want := map[string]string{"delaybridge-source-topic": topic, "delaybridge-source-broker": "broker-a", "delaybridge-source-queue": "0",
			"delaybridge-source-offset": strconv.Itoa(n), "delaybridge-reject-left-out": test.leftOut}
		for property, value := range want {
			if got.property[property] != value {
				t.Errorf("%s: %s is %q, want %q", name, property, got.property[property], value)
			}
		}
		if reason := got.property["delaybridge-reject-reason"]; !strings.Contains(reason, test.reason) {
			t.Errorf("%s: rejected as %q, want %q", name, reason, test.reason)
		}
		if body := string(got.body); test.leftOut != "body" && body != test.sent.body || test.leftOut == "body" && body != "" {
			t.Errorf("%s: body of %d bytes", name, len(body))
		}
		if test.leftOut != "properties" && !strings.HasPrefix(string(got.properties), test.sent.properties) {
			t.Errorf("%s: properties %q, want %q first", name, got.properties, test.sent.properties)
		}
		if got.property["REAL_TOPIC"] != "" {
			t.Errorf("%s: the broker has delayed it", name)
		}
	}
	if parked := r.store.Await(t, 1); string(parked[0].Body) != "good" || len(parked) > 1 {
		t.Errorf("parked %d, the first %q", len(parked), parked[0].Body)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if report := src.Report(); report.Rejected != uint64(len(tests)) || report.Parked != 1 {
		t.Errorf("%+v", report)
	}
	if offset := r.committed(topic, 0); offset != int64(len(tests)+1) {
		t.Errorf("committed %d", offset)
	}
}

// TestConflict: an ID that was used for something else is no duplicate.
func TestConflict(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic("-delayed", 1), r.topic("-rejected", 1)
	for _, body := range []string{"one", "two", "one"} {
		r.send(topic, 0, body, props("delaybridge-deliver-at", soon.Format("2006-01-02T15:04:05Z"), "delaybridge-id", "7"))
	}
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects}))
	got := r.read(rejects, 1)[0]
	if string(got.body) != "two" || !strings.Contains(got.property["delaybridge-reject-reason"], core.ErrConflict.Error()) {
		t.Errorf("rejected %q: %q", got.body, got.property)
	}
	poll.Until(t, time.Minute, "the third", func() bool { return src.Report().Duplicates == 1 })
}

// TestNoRejectTopic: the source ends with an error, has parked what came before,
// and begins at the message in question the next time.
func TestNoRejectTopic(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic("-delayed", 1), r.topic("-rejected", 1)
	r.sendBatch(topic, 0, one{"0", props("delaybridge-delay", "1h")}, one{"1", ""}, one{"2", props("delaybridge-delay", "1h")})
	err := r.run(r.source([]string{topic}, nil)).wait(t)
	refused, ok := errors.AsType[*source.RefusedError](err)
	if !ok || !strings.HasPrefix(refused.ID, "r:src:"+topic+":broker-a:0:1:") {
		t.Fatalf("Run returned %v", err)
	}
	if offset := r.committed(topic, 0); offset > 1 {
		t.Errorf("committed %d", offset)
	}
	r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects}))
	if got := r.read(rejects, 1)[0]; string(got.body) != "1" {
		t.Errorf("rejected %q", got.body)
	}
	parked := r.store.Await(t, 2)
	if string(parked[0].Body) != "0" || string(parked[1].Body) != "2" {
		t.Errorf("parked %q and %q", parked[0].Body, parked[1].Body)
	}
}

// TestRejectTopicMissing: nothing is passed over while it can't be written to.
func TestRejectTopicMissing(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.sendBatch(topic, 0, one{"bad", ""}, one{"good", props("delaybridge-delay", "1h")})
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": r.name + "-rejected"}))
	poll.Until(t, time.Minute, "tries", func() bool { return src.Report().Retried >= 2 })
	if offset := r.committed(topic, 0); offset > 0 {
		t.Errorf("committed %d", offset)
	}
	if got := r.read(r.topic("-rejected", 1), 1)[0]; string(got.body) != "bad" {
		t.Errorf("rejected %q", got.body)
	}
	poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, 0) == 2 })
}
