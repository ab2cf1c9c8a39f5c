package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
)

// FuzzLogger: whatever is logged is one line in either format, with nothing in
// it that drives a terminal or changes the order in which it is read. The JSON
// one parses back to what was logged.
func FuzzLogger(f *testing.F) {
	f.Add("message", "name", "value")
	f.Add("a\nlevel=ERROR msg=b", "x=1 y", "\x1b[31m\r\n{\"level\":\"ERROR\"}")
	f.Add("\u0085\u2028\u202e", "\u009b2J", "\x7f\u2066\U000e0041")
	f.Add("\\u0085", "a\\", "\\\u0085\"")
	f.Add("\xff", "\xff", "\xc2")
	f.Fuzz(func(t *testing.T, message, name, value string) {
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			log := newLogger(&out, config.Log{Format: format}, slog.LevelInfo)
			record := slog.NewRecord(time.Now(), slog.LevelInfo, message, 0)
			record.Add("v", value, "err", errors.New(value), "k"+name, "")
			if err := log.Handler().Handle(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			line, more, ended := strings.Cut(out.String(), "\n")
			if !ended || more != "" || !utf8.ValidString(line) || strings.ContainsFunc(line, unseen) {
				t.Errorf("%s: %q", format, out.String())
			}
			if format == "json" && utf8.ValidString(message) && utf8.ValidString(value) {
				checkJSONLine(t, line, message, value)
			}
		}
	})
}

func unseen(r rune) bool { return unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' }

func checkJSONLine(t *testing.T, line, message, value string) {
	t.Helper()
	var got struct{ Msg, V, Err string }
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.Msg != message || got.V != value || got.Err != value {
		t.Errorf("%q and %q became %q, %v", message, value, line, err)
	}
}
