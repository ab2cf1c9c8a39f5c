package memstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// position is where an entry stands in the order of List.
type position struct {
	Due          int64 // epoch milliseconds
	Sink, Bucket int32 // as numbered in the query and in the sink
	Rank         int32 // 0 for the highest priority; not for dead letters
	Seq          uint64
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.Due, q.Due), cmp.Compare(p.Sink, q.Sink), cmp.Compare(p.Bucket, q.Bucket),
		cmp.Compare(p.Rank, q.Rank), cmp.Compare(p.Seq, q.Seq))
}

// listed is a record at its position.
type listed struct {
	position
	record *record
}

// List implements core.Inspector. Entries with equal due times are in the order of the
// query's sinks, then of the buckets, then of delivery or, for dead letters, of
// acceptance.
func (s *Store) List(_ context.Context, query core.Query) (core.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var after *position
	if query.Cursor != "" {
		last, err := openCursor(query)
		if err != nil {
			return core.Page{}, err
		}
		after = &last
	}
	selected := s.selectFrom(query, after)
	limit := min(max(query.Limit, 1), core.MaxPage)
	var page core.Page
	if len(selected) > limit {
		selected = selected[:limit]
		page.Next = makeCursor(query, selected[limit-1].position)
	}
	for _, l := range selected {
		entry := l.record.entry()
		entry.Message.Body = nil
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}

// selectFrom returns what the query asks for beyond a position, in order.
func (s *Store) selectFrom(query core.Query, after *position) []listed {
	var selected []listed
	for n, name := range query.Sinks {
		for _, b := range s.sink(name).buckets {
			for _, r := range b.records {
				at := r.position(n, b.number)
				if selects(query, r) && (after == nil || after.compare(at) < 0) {
					selected = append(selected, listed{at, r})
				}
			}
		}
	}
	slices.SortFunc(selected, func(a, b listed) int { return a.compare(b.position) })
	return selected
}

func (r *record) position(sink, bucket int) position {
	p := position{Due: r.due.UnixMilli(), Sink: int32(sink), Bucket: int32(bucket), Seq: r.seq}
	if r.place != dead {
		p.Rank = int32(core.MaxPriority - r.message.Priority)
	}
	return p
}

func selects(query core.Query, r *record) bool {
	states := query.States
	if len(states) == 0 {
		states = []core.State{core.Scheduled, core.Retrying, core.Delivering}
	}
	return slices.Contains(states, r.state()) &&
		(query.Topic == "" || query.Topic == r.message.Topic) &&
		(query.DueAfter.IsZero() || !r.due.Before(query.DueAfter)) &&
		(query.DueBefore.IsZero() || r.due.Before(query.DueBefore))
}

// cursor is what a page's Next carries. Query ties it to the query that it was
// made for.
type cursor struct {
	Query uint64
	Last  position
}

func makeCursor(query core.Query, last position) string {
	raw, err := binary.Append(nil, binary.BigEndian, cursor{digest(query), last})
	if err != nil {
		panic(err) // cursor has fields of fixed size only
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func openCursor(query core.Query) (position, error) {
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(query.Cursor)
	if err != nil || len(raw) != binary.Size(c) {
		return position{}, core.ErrBadCursor
	}
	if _, err := binary.Decode(raw, binary.BigEndian, &c); err != nil || c.Query != digest(query) {
		return position{}, core.ErrBadCursor
	}
	return c.Last, nil
}

// digest is the same for the pages of one walk: the limit may change.
func digest(query core.Query) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %d %d", query.Sinks, query.States, query.Topic,
		query.DueAfter.UnixMilli(), query.DueBefore.UnixMilli())
	return h.Sum64()
}

// Stats implements core.Inspector. NextDue ignores messages in flight.
func (s *Store) Stats(_ context.Context, sinks ...string) ([]core.SinkStats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := down(time.Now())
	stats := make([]core.SinkStats, len(sinks))
	for n, name := range sinks {
		stats[n] = core.SinkStats{Sink: name, Buckets: s.buckets}
		for _, b := range s.sink(name).buckets {
			b.count(&stats[n], now)
		}
	}
	return stats, nil
}

func (b *bucket) count(stats *core.SinkStats, now time.Time) {
	for _, r := range b.records {
		if r.place == dead {
			stats.Dead++
			continue
		}
		stats.Scheduled++
		if r.attempts > 0 || r.reason != "" {
			stats.Retrying++
		}
		if !r.due.After(now) {
			stats.Due++
			stats.Overdue = max(stats.Overdue, now.Sub(r.due))
		}
	}
	if b.owner != nil {
		stats.Owned++
	}
	if next := b.next(); !next.IsZero() && (stats.NextDue.IsZero() || next.Before(stats.NextDue)) {
		stats.NextDue = next
	}
}

// Timeline implements core.Inspector.
func (s *Store) Timeline(_ context.Context, query core.TimelineQuery) (core.Timeline, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := core.Timeline{Due: make([]int, query.Steps())}
	for _, name := range query.Sinks {
		for _, b := range s.sink(name).buckets {
			for _, r := range b.records {
				switch {
				case r.place == dead:
				case r.due.Before(query.From):
					found.Before++
				case !r.due.Before(query.To):
					found.After++
				default:
					found.Due[r.due.Sub(query.From)/query.Step]++
				}
			}
		}
	}
	return found, nil
}
