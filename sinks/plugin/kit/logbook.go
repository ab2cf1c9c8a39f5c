package kit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"

	"github.com/delaybridge/delaybridge/core"
)

// logBook keeps what was logged. Safe for concurrent use.
type logBook struct {
	mu    sync.Mutex
	lines []string
	bytes int
}

// maxBook bounds what is kept: a plugin may log without end.
const maxBook = 32 << 20

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes += len(p); b.bytes <= maxBook {
		b.lines = append(b.lines, string(bytes.TrimRight(p, "\n")))
	}
	return len(p), nil
}

func (b *logBook) mark() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.lines) }

// since returns the lines from mark on.
func (b *logBook) since(mark int) []string { b.mu.Lock(); defer b.mu.Unlock(); return b.lines[mark:] }

const maxWarnings = 10

// warningsSince are the last warnings and errors from mark on.
func (b *logBook) warningsSince(mark int) []string {
	var found []string
	for _, line := range b.since(mark) {
		if strings.HasPrefix(line, "level=WARN") || strings.HasPrefix(line, "level=ERROR") {
			found = append(found, "log: "+core.Shorten(line, 1000))
		}
	}
	return found[max(0, len(found)-maxWarnings):]
}
