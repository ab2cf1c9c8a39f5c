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

// FuzzLogRejected: a record that is rejected, whatever its producer calls it,
// makes one line of the log, of bounded length, with no field of the producer's.
func FuzzLogRejected(f *testing.F) {
	f.Add("id-1", "id: is longer than 128 bytes", 1)
	f.Add("a\nlevel=ERROR msg=forged", "x\r\n\x1b[2J", 7)
	f.Add("\" records=0 err=\"", "\"} {\"level\":\"ERROR\"", 2)
	f.Add(strings.Repeat("i", 1<<16), strings.Repeat("r", 1<<16), 3)
	f.Add("\xff", "\xc2", 500)
	f.Add("\\", "0", 160)
	f.Fuzz(func(t *testing.T, id, reason string, records int) {
		var plain, object bytes.Buffer
		items := []Item{{Message: &core.Message{ID: id}}}
		rejected := make([]Rejection, min(max(records, 1), 500))
		rejected[0] = Rejection{Index: 0, Reason: errors.New(reason)}
		for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&plain, nil)), slog.New(slog.NewJSONHandler(&object, nil))} {
			(&Parker{Name: "kafka-in", Log: log}).logRejected(items, rejected, at)
		}
		for _, line := range []string{plain.String(), object.String()} {
			if strings.IndexByte(line, '\n') != len(line)-1 || len(line) > 300+6*(core.MaxIDLen+core.MaxErrorText) {
				t.Errorf("%d bytes: %q", len(line), core.Shorten(line, 1000))
			}
		}
		id, reason = core.Shorten(id, core.MaxIDLen), core.Shorten(reason, core.MaxErrorText)
		want := fmt.Sprintf(" level=WARN msg=\"records rejected\" source=kafka-in records=%d at=\"position 0\" message_id=", len(rejected))
		_, rest, _ := strings.Cut(plain.String(), want)
		if got, ok := strings.CutPrefix(rest, spelled(id)+" err="); !ok || got != spelled(reason)+"\n" {
			t.Errorf("%q and %q became %q", id, reason, plain.String())
		}
		fields := map[string]any{}
		if err := json.Unmarshal(object.Bytes(), &fields); err != nil || len(fields) != 8 || fields["message_id"] != strings.ToValidUTF8(id, "\ufffd") && !strings.Contains(fmt.Sprint(fields["message_id"]), "\ufffd") {
			t.Errorf("%q became %q, %v", id, object.String(), err)
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
