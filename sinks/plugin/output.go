package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

const (
	// linesPerSecond bounds what one plugin may write into our log.
	linesPerSecond = 100
	maxLine        = 8 << 10 // bytes; what is longer is cut
	maxFields      = 32      // of a line in JSON
)

// output passes what a plugin prints on to the log: bounded in number and
// length, on one line each, and with nothing in it that could drive a terminal.
// It never blocks the plugin for longer than the log does. It is kept when the
// plugin is restarted, so that a plugin that crashes often does not print more.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	second  time.Time // the one that printed is about
	printed int
	dropped int
	last    string // the last line that was printed as an error, or on stderr at all
}

// stream is one of the ways on which a plugin prints: an io.Writer that cuts
// what comes into lines.
type stream struct {
	to      *output
	name    string
	mu      sync.Mutex
	line    []byte // without its end
	cut     bool   // the line was too long, and its rest is left out
	failing bool   // a panic was seen: all that follows belongs to it
}

func (o *output) stream(name string) *stream { return &stream{to: o, name: name} }

// Write never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		room := maxLine - len(s.line)
		s.cut = s.cut || len(line) > room
		s.line = append(s.line, line[:min(room, len(line))]...)
		if whole {
			s.flush()
		}
		rest = more
	}
	return len(p), nil
}

// end passes on what had no end of line.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		s.flush()
	}
	s.failing = false
}

// flush passes the line on; s.mu is held.
func (s *stream) flush() {
	line, cut := bytes.TrimSuffix(s.line, []byte{'\r'}), s.cut
	s.line, s.cut = s.line[:0], false
	if len(line) == 0 || !s.to.admit() {
		return
	}
	e, ok := parseEntry(line)
	if !ok {
		e = entry{level: s.levelOf(line), text: string(line)}
	}
	s.to.print(s.name, e, cut)
}

// levelOf is the level of a line that does not say it as we expect.
func (s *stream) levelOf(line []byte) slog.Level {
	text := string(line[:min(len(line), 64)])
	switch {
	case s.failing:
		return slog.LevelError
	case strings.HasPrefix(text, "panic: "), strings.HasPrefix(text, "fatal error: "), strings.HasPrefix(text, "Traceback (most recent"):
		s.failing = true
		return slog.LevelError
	}
	level, _, ok := strings.Cut(strings.TrimPrefix(text, "["), "]")
	if ok && strings.HasPrefix(text, "[") {
		return parseLevel(level)
	}
	return slog.LevelInfo
}

// admit counts a line, and reports whether it may be printed.
func (o *output) admit() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.Sub(o.second) >= time.Second {
		o.reportDropped()
		o.second, o.printed = now, 0
	}
	if o.printed == linesPerSecond {
		o.dropped++
		return false
	}
	o.printed++
	return true
}

// settle says what was left out, if nothing was printed since that would have.
func (o *output) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.second) >= time.Second {
		o.reportDropped()
	}
}

// reportDropped says how much was left out; o.mu is held.
func (o *output) reportDropped() {
	if o.dropped > 0 {
		o.log.Warn("plugin printed too many lines, some were dropped", "lines", o.dropped)
		o.dropped = 0
	}
}

func (o *output) print(stream string, e entry, cut bool) {
	text := printableText(e.text)
	if stream == streamStderr {
		o.mu.Lock()
		o.last = core.Shorten(text, maxLastLine)
		o.mu.Unlock()
	}
	attrs := []slog.Attr{slog.String("stream", stream), slog.String("text", text)}
	if cut {
		attrs = append(attrs, slog.Bool("cut", true))
	}
	if len(e.fields) > 0 {
		attrs = append(attrs, slog.Attr{Key: "fields", Value: slog.GroupValue(e.fields...)})
	}
	o.log.LogAttrs(context.Background(), e.level, "plugin says", attrs...)
}

const (
	streamStdout = "stdout"
	streamStderr = "stderr"
	maxLastLine  = 200
)

// lastLine is the last line on stderr since the last call: mostly the reason of
// an end.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last
	o.last = ""
	return last
}

// entry is one line as it is logged.
type entry struct {
	level  slog.Level
	text   string
	fields []slog.Attr
}

// parseEntry reads a line in the form of hclog, which go-plugin has made the
// common one: a JSON object with @level and @message.
func parseEntry(line []byte) (entry, bool) {
	if line[0] != '{' {
		return entry{}, false
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(line, &values) != nil {
		return entry{}, false
	}
	var level, text string
	if json.Unmarshal(values["@level"], &level) != nil || json.Unmarshal(values["@message"], &text) != nil {
		return entry{}, false
	}
	e := entry{level: parseLevel(level), text: text}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(name, "@") || len(e.fields) == maxFields {
			continue
		}
		e.fields = append(e.fields, slog.String(printableText(core.Shorten(name, 64)), printableText(valueText(values[name]))))
	}
	return e, true
}

// valueText is a JSON string without its quotes, and all else as it stands.
func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

func parseLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error", "fatal", "critical":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// printableText makes one line of s that drives no terminal: what is not
// printable or not UTF-8 is written as \x1b, \u202e and the like.
func printableText(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// clean is a text of a plugin as part of an error.
func clean(text string) string {
	return core.Shorten(printableText(core.Shorten(text, core.MaxErrorText)), core.MaxErrorText)
}

var _ io.Writer = (*stream)(nil)
