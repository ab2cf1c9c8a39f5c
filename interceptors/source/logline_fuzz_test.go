package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

const traceOfTest = "4bf92f3577b34da6a3ce929d0e0e4736"

// FuzzLogRecord: a record that is rejected, whatever its producer calls it, makes one line
// of the log, of bounded length, with no field of the producer's; and all others of the
// same second make one line.
func FuzzLogRecord(f *testing.F) {
	f.Add("id-1", "topic", "id: is longer than 128 bytes", 1)
	f.Add("a\nlevel=ERROR msg=forged", "x\r\n\x1b[2J", "x\r\n\x1b[2J", 7)
	f.Add("\" records=0 err=\"", "sink=a", "\"} {\"level\":\"ERROR\"", 2)
	f.Add(strings.Repeat("i", 1<<16), strings.Repeat("t", 1<<16), strings.Repeat("r", 1<<16), 3)
	f.Add("\xff", "\xff", "\xc2", 500)
	f.Add("\\", "\\", "0", 160)
	f.Fuzz(func(t *testing.T, id, topic, reason string, records int) {
		var plain, object bytes.Buffer
		trace := core.Header{Name: "traceparent", Value: []byte("00-" + traceOfTest + "-00f067aa0ba902b7-01")}
		items := []Item{{Message: &core.Message{ID: id, Sink: "orders", Topic: topic, Headers: []core.Header{trace}}}}
		rejected := make([]Rejection, min(max(records, 1), 500))
		for n := range rejected {
			rejected[n].Reason = errors.New(reason)
		}
		for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&plain, nil)), slog.New(slog.NewJSONHandler(&object, nil))} {
			p := &Parker{Name: "kafka-in", Log: log}
			p.leaveOut("record rejected", &p.totals.rejected, items, rejected, at)
			p.Flush()
		}
		id, topic, reason = core.Shorten(id, core.MaxIDLen), core.Shorten(topic, core.MaxTopicLen), core.Shorten(reason, core.MaxErrorText)
		first, others, _ := strings.Cut(plain.String(), "\n")
		want := fmt.Sprintf(` level=WARN msg="record rejected" source=kafka-in message_id=%s sink=orders topic=%s trace_id=%s at="position 0" err=%s`,
			spelled(id), spelled(topic), traceOfTest, spelled(reason))
		if !strings.HasSuffix(first, want) {
			t.Errorf("%q, %q and %q became %q", id, topic, reason, first)
		}
		if count := fmt.Sprintf(` count=%d `, len(rejected)-1); others != "" != (len(rejected) > 1) || others != "" && !strings.Contains(others, count) ||
			strings.Count(others, "\n") > 1 {
			t.Errorf("%d others became %q", len(rejected)-1, others)
		}
		var line struct {
			ID     string `json:"message_id"`
			Source string `json:"source"`
		}
		if err := json.NewDecoder(&object).Decode(&line); err != nil || line.Source != "kafka-in" ||
			line.ID != strings.ToValidUTF8(id, "\ufffd") && !strings.Contains(line.ID, "\ufffd") {
			t.Errorf("%q became %+v, %v", id, line, err)
		}
	})
}

// spelled is s as it stands in the log: quoted if it could be taken for more
// than one word. slog does not count DEL among the control characters, and has no
// quotes for a backslash alone.
func spelled(s string) string {
	quoted, rest := strconv.Quote(s), strings.NewReplacer("\x7f", "", `\`, "").Replace(s)
	if s == "" || strconv.Quote(rest) != `"`+rest+`"` || strings.ContainsAny(s, " =") {
		return quoted
	}
	return s
}
