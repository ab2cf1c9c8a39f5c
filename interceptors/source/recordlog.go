package source

import (
	"context"
	"log/slog"

	"github.com/delaybridge/delaybridge/core"
)

// logRecord logs what became of a record, with what is known of its message. Of a flood
// of records there are examples and a count.
func (p *Parker) logRecord(level slog.Level, text, example string, item *Item, more ...any) {
	log := p.log().With("source", p.Name)
	if !p.summary.First(log, text, "", example) {
		return
	}
	about := []any{"message_id", core.Shorten(item.id(), core.MaxIDLen)}
	if m := item.Message; m != nil {
		about = append(about, "sink", core.Shorten(m.Sink, core.MaxTopicLen), "topic", core.Shorten(m.Topic, core.MaxTopicLen))
		if trace := m.TraceID(); trace != "" {
			about = append(about, "trace_id", trace)
		}
	}
	log.Log(context.Background(), level, text, append(about, more...)...)
}

// Flush logs at once what is still to be summed up. Call it after the last Park.
func (p *Parker) Flush() { p.summary.Flush() }

func (p *Parker) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log
}
