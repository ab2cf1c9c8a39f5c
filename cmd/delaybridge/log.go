package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
)

// levelOf is the level of c, which config has checked; else info.
func levelOf(c config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(strings.ToUpper(c.Level)))
	return level
}

func newLogger(w io.Writer, c config.Log, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(visible{w}, options))
	}
	return slog.New(slog.NewTextHandler(visible{w}, options))
}

// visible writes log lines on to another writer, with escapes in place of what
// the handlers let stand but a terminal acts on, or shows in another order: log
// lines hold texts of producers and brokers. In JSON that can be within a string
// only; of text it is DEL, in a word without quotes.
type visible struct{ to io.Writer }

func (v visible) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, hidden) {
		return v.to.Write(line)
	}
	escaped := make([]byte, 0, len(line)+64)
	for rest := line; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if hidden(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		} else {
			escaped = append(escaped, rest[:size]...)
		}
		rest = rest[size:]
	}
	if _, err := v.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

// hidden tells control and format characters; the handlers escape those of ASCII
// but DEL.
func hidden(r rune) bool { return r >= 0x7f && unicode.Is(unicode.C, r) }
