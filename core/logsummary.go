package core

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// LogSummary limits the rate of repeated log lines. Of the events with one text, the
// first in a second is logged in full; a line at the end of that second sums up the
// others. The zero value is ready to use. It is safe for concurrent use.
type LogSummary struct {
	mu      sync.Mutex
	repeats map[string]*repeats // by text, for a second each
}

// repeats are the events of one text in one second, but for the first.
type repeats struct {
	log      *slog.Logger
	count    int
	reasons  map[string]int
	examples []string
}

const (
	summaryEvery    = time.Second
	summaryExamples = 3
)

// First reports whether the caller has to log the event in full. If not, the event is
// counted, and log later receives the sum: the count, the count per reason (one of a
// few words) and some distinct examples, such as ids. Reason and example may be empty.
func (s *LogSummary) First(log *slog.Logger, text, reason, example string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.repeats[text]
	if ok {
		r.add(reason, example)
		return false
	}
	if s.repeats == nil {
		s.repeats = make(map[string]*repeats)
	}
	r = &repeats{log: log}
	s.repeats[text] = r
	time.AfterFunc(summaryEvery, func() { s.end(text, r) })
	return true
}

// end ends the second of r, unless Flush has.
func (s *LogSummary) end(text string, r *repeats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repeats[text] == r {
		delete(s.repeats, text)
		r.write(text)
	}
}

// Flush logs the sums at once. Call it before the process ends.
func (s *LogSummary) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(s.repeats)) {
		s.repeats[text].write(text)
	}
	clear(s.repeats)
}

func (r *repeats) add(reason, example string) {
	r.count++
	if reason != "" {
		if r.reasons == nil {
			r.reasons = make(map[string]int)
		}
		r.reasons[reason]++
	}
	if example != "" && len(r.examples) < summaryExamples && !slices.Contains(r.examples, example) {
		r.examples = append(r.examples, example)
	}
}

func (r *repeats) write(text string) {
	if r.count == 0 {
		return
	}
	var reasons []any
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		reasons = append(reasons, slog.Int(reason, r.reasons[reason]))
	}
	more := []any{"what", text, "count", r.count, slog.Group("reasons", reasons...)}
	if len(r.examples) > 0 {
		more = append(more, "examples", r.examples)
	}
	r.log.Warn("repeated within a second", more...)
}

// logFailures logs which messages did not go out, once that is settled.
func (l *bucketLoop) logFailures(batch []*Message, outcomes []Outcome) {
	var log *slog.Logger
	for _, o := range outcomes {
		if o.State == Delivered {
			continue
		}
		if log == nil {
			log = l.log().With("sink", l.Name)
		}
		text, more := "dead letter", []any(nil)
		if o.State == Retrying {
			text, more = "delivery failed, will be retried", []any{"retry_in", o.After}
		}
		if l.summary.First(log, text, o.Reason, o.ID) {
			n := slices.IndexFunc(batch, func(m *Message) bool { return m.ID == o.ID })
			log.Warn(text, slices.Concat([]any{"bucket", l.bucket.String()}, batch[n].logged(o.Attempts),
				[]any{"reason", o.Reason, "err", Shorten(o.Error, MaxErrorText)}, more)...)
		}
	}
}

// logged is what a line about a message and its last attempt has, besides the sink.
func (m *Message) logged(attempt int) []any {
	logged := []any{"message_id", m.ID, "topic", m.Topic, "attempt", attempt}
	if trace := m.TraceID(); trace != "" {
		logged = append(logged, "trace_id", trace)
	}
	return logged
}
