package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzCursor: whatever a caller sends for a cursor is refused, or is one that
// this very query made.
func FuzzCursor(f *testing.F) {
	query := core.Query{Sinks: []string{"orders"}, Topic: "t", Limit: 1}
	f.Add(makeCursor(query, position{Due: 1_700_000_000_000, Bucket: 3, Rank: 9, Seq: 1 << 40}), "orders", "t")
	f.Add("AAAA", "orders", "t")
	f.Add("", "a b", "")
	f.Add("====", `"`, "\xff")
	f.Fuzz(func(t *testing.T, text, sink, topic string) {
		query := core.Query{Sinks: []string{sink}, Topic: topic, Limit: 1, Cursor: text}
		if text != "" {
			at, err := openCursor(query)
			if err != nil && !errors.Is(err, core.ErrBadCursor) {
				t.Errorf("got %v", err)
			}
			if err == nil {
				query.Cursor = makeCursor(query, at)
				if again, err := openCursor(query); err != nil || again != at {
					t.Errorf("%+v became %+v, %v", at, again, err)
				}
				query.Topic += "x"
				if _, err := openCursor(query); err == nil {
					t.Error("the cursor is taken for another query")
				}
			}
		}
		s := New(Config{})
		defer s.Close()
		s.Park(t.Context(), &core.Message{ID: "a", Sink: sink, Topic: topic, Delay: time.Hour})
		page, err := s.List(t.Context(), query)
		if err != nil && !errors.Is(err, core.ErrBadCursor) || len(page.Entries) > 1 {
			t.Errorf("%d entries, %v", len(page.Entries), err)
		}
	})
}
