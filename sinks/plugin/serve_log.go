package plugin

import (
	"io"
	"log/slog"
	"strings"
)

// logTime is the only form of time that hosts read.
const logTime = "2006-01-02T15:04:05.000000Z07:00"

// newLogHandler writes lines of JSON that the host takes apart again: @level,
// @message and @timestamp beside the attributes.
func newLogHandler(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: hostAttr})
}

// hostAttr renames what slog adds to each line. The kinds tell it from an
// author's attribute of the same name.
func hostAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch {
	case a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime:
		return slog.String("@timestamp", a.Value.Time().Format(logTime))
	case a.Key == slog.MessageKey && a.Value.Kind() == slog.KindString:
		a.Key = "@message"
	case a.Key == slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String("@level", hostLevel(level))
		}
	default:
		a.Key = strings.TrimLeft(a.Key, "@") // those names are taken
	}
	return a
}

// hostLevel is the nearest of the levels that hosts know.
func hostLevel(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
}
