package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzLogLine: what a broker or a plugin says of a message, and what a producer
// calls it, makes one line of the log, in either format, which parses back to
// the same values and to no more fields.
func FuzzLogLine(f *testing.F) {
	f.Add("id-1", "plain text")
	f.Add("a b=c", "no\nlevel=ERROR msg=forged message_id=other")
	f.Add("\"", "\x1b[2J\r\n{\"level\":\"ERROR\",\"msg\":\"forged\"}")
	f.Add("\xff", "\u2028\u0085\u202e\x00\\\"")
	f.Fuzz(func(t *testing.T, id, text string) {
		var plain, object bytes.Buffer
		for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&plain, nil)), slog.New(slog.NewJSONHandler(&object, nil))} {
			d := &Dispatcher{Name: "orders", Log: log}
			loop := &bucketLoop{Dispatcher: d, bucket: namedBucket{}}
			m := &Message{ID: id, Topic: text, Attempt: 1}
			loop.logFailures([]*Message{m, m}, []Outcome{loop.failed(m, Classify(Permanent, errors.New(text)), time.Now()), {ID: id, State: Dead, Reason: "expired"}})
			d.summary.Flush()
			d.logPause(Classify(Blocked, errors.New(text)))
		}
		kept := func(class string) string { return Shorten(class+": "+text, MaxErrorText) }
		want := []map[string]string{
			{"level": "WARN", "msg": "dead letter", "sink": "orders", "bucket": "orders/3", "message_id": id, "topic": text, "attempt": "1", "reason": "permanent", "err": kept("permanent")},
			{"level": "WARN", "msg": "repeated within a second", "what": "dead letter", "sink": "orders", "count": "1", "reasons.expired": "1", "examples": "[" + id + "]"},
			{"level": "WARN", "msg": "sink paused, its messages stay parked", "sink": "orders", "class": "blocked", "err": kept("blocked")},
		}
		checkLog(t, plain.String(), want, textFields)
		delete(want[1], "reasons.expired")
		want[1]["reasons"] = `{"expired":1}`
		if ids, _ := json.Marshal([]string{id}); utf8.ValidString(id) {
			want[1]["examples"] = string(ids)
		}
		checkLog(t, object.String(), want, jsonFields)
	})
}

type namedBucket struct{ Bucket }

func (namedBucket) String() string { return "orders/3" }

// checkLog compares the lines with what they should say, but for the time.
func checkLog(t *testing.T, log string, want []map[string]string, parse func(t *testing.T, line string) map[string]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines in %q", len(lines), log)
	}
	for n, line := range lines {
		got := parse(t, line)
		delete(got, "time")
		if len(got) != len(want[n]) {
			t.Errorf("fields %q in %q", got, line)
		}
		for name, value := range want[n] {
			// JSON can't say what is not UTF-8.
			if got[name] != value && utf8.ValidString(value) {
				t.Errorf("%s is %q in %q, want %q", name, got[name], line, value)
			}
		}
	}
}

func jsonFields(t *testing.T, line string) map[string]string {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal([]byte(line), &values); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	fields := make(map[string]string, len(values))
	for name, value := range values {
		switch v := value.(type) {
		case string:
			fields[name] = v
		default:
			raw, _ := json.Marshal(v)
			fields[name] = string(raw)
		}
	}
	return fields
}
