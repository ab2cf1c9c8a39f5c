package console

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzLine: a message is one line in either format, without a byte that drives a
// terminal, and the JSON one parses back to the message.
func FuzzLine(f *testing.F) {
	f.Add("id", "orders.new", []byte("key"), []byte("body"), "name", []byte("value"))
	f.Add("id", "t", []byte("k\nid2  forged"), []byte("\x1b[2J\r\n{\"time\":\"x\"}"), "a\"b", []byte("\u2028\u0085\x7f"))
	f.Add("id", "t", []byte(nil), []byte(nil), "\u202e", []byte("\u202eabc"))
	f.Add("id", "t", []byte("\xff"), bytes.Repeat([]byte("é"), 40), "n", []byte("<>&"))
	f.Fuzz(func(t *testing.T, id, topic string, key, body []byte, name string, value []byte) {
		at := time.UnixMilli(1_700_000_000_000).UTC()
		m := &core.Message{ID: id, Sink: "console", Topic: topic, Key: key, Body: body, Attempt: 1, DeliverAt: at, Headers: []core.Header{{Name: name, Value: value}}}
		if (core.Limits{}).Check(m, at) != nil {
			return
		}
		line := human(nil, m, at)
		checkLine(t, line)
		if len(line) > 200+len(id)+4*len(topic)+10*len(key)+10*maxBodyShown {
			t.Errorf("a body of %d bytes makes a line of %d", len(body), len(line))
		}
		line = object(nil, m, at)
		checkLine(t, line)
		checkObject(t, line, m)
	})
}

// checkLine lets pass what a terminal shows as text; half surrogates are not in it.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	if !utf8.Valid(line) || bytes.ContainsFunc(line, unicode.IsControl) {
		t.Errorf("a control character, or no UTF-8, in %q", line)
	}
}

func checkObject(t *testing.T, line []byte, m *core.Message) {
	t.Helper()
	var r record
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || strings.TrimSpace(string(line[decoder.InputOffset():])) != "" {
		t.Fatalf("%v, or more than one object in %q", err, line)
	}
	got := []string{r.ID, r.Topic, joined(r.Key, r.KeyBase64), joined(r.Body, r.BodyBase64)}
	want := []string{m.ID, m.Topic, nullOr(m.Key), nullOr(m.Body)}
	for _, h := range r.Headers {
		got = append(got, h.Name, joined(h.Value, h.ValueBase64))
	}
	for _, h := range m.DeliveredHeaders() {
		want = append(want, h.Name, nullOr(h.Value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-message +line:\n%s", diff)
	}
}

func joined(text *string, raw []byte) string {
	if text != nil {
		return "=" + *text
	}
	return nullOr(raw)
}

// nullOr tells null from empty.
func nullOr(b []byte) string {
	if b == nil {
		return "null"
	}
	return "=" + string(b)
}
