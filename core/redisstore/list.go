package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// A list walks the due sets of all buckets at once, ordered by due time, then
// by sink, bucket, priority (high first) and acceptance. A page takes a few round
// trips: a few members and due times from every bucket, more from those that may
// have more of the page, then the messages, without their bodies, that are on it.

// cursor says behind which entry the next page begins.
type cursor struct {
	Query  uint32 `json:"q"` // hash of the query it belongs to
	Due    int64  `json:"d"`
	Sink   int    `json:"s"` // position in Query.Sinks
	Bucket int    `json:"b"`
	Level  int    `json:"p"`
	Seq    int64  `json:"n"`
}

func (c cursor) encode() string {
	raw, _ := json.Marshal(c) // plain numbers
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeCursor(s string, query uint32) (*cursor, error) {
	if s == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, core.ErrBadCursor
	}
	var c cursor
	if json.Unmarshal(raw, &c) != nil || c.Query != query || c.Due < 0 || c.Seq < 0 {
		return nil, core.ErrBadCursor
	}
	return &c, nil
}

// queryHash tells queries apart, but for how much and from where they read.
func queryHash(q core.Query) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%q %q %q %d %d", q.Sinks, q.States, q.Topic, q.DueAfter.UnixMilli(), q.DueBefore.UnixMilli())
	return h.Sum32()
}

// spot is one member of a due set or of the dead.
type spot struct {
	sink, bucket, level int
	due, seq            int64
	id                  string
	inFlight            bool
}

func (a spot) compare(b spot) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.sink, b.sink), cmp.Compare(a.bucket, b.bucket),
		cmp.Compare(b.level, a.level), cmp.Compare(a.seq, b.seq))
}

func (a spot) cursor(query uint32) cursor {
	return cursor{Query: query, Due: a.due, Sink: a.sink, Bucket: a.bucket, Level: a.level, Seq: a.seq}
}

// List implements core.Inspector.
func (s *Store) List(ctx context.Context, q core.Query) (core.Page, error) {
	hash := queryHash(q)
	from, err := decodeCursor(q.Cursor, hash)
	if err != nil {
		return core.Page{}, err
	}
	spots, more, err := s.spots(ctx, q, from)
	if err != nil {
		return core.Page{}, err
	}
	entries, err := s.peek(ctx, q, spots)
	if err != nil {
		return core.Page{}, err
	}
	page := core.Page{Entries: entries}
	if more {
		page.Next = spots[len(spots)-1].cursor(hash).encode()
	}
	return page, nil
}

func listsDead(q core.Query) bool {
	return slices.Contains(q.States, core.Dead) || slices.Contains(q.States, core.Expired)
}

// source is the members of one bucket in a list.
type source struct {
	sink, bucket int
	spots        []spot // known, in order
	// rest is the spot behind which more may lie that is not known; nil: none.
	rest *spot
}

// spots reads the members that the page looks at, and whether there are more.
func (s *Store) spots(ctx context.Context, q core.Query, from *cursor) (page []spot, more bool, err error) {
	var sources, ask []*source
	for n := range q.Sinks {
		for b := range s.keys.buckets {
			sources = append(sources, &source{sink: n, bucket: b})
		}
	}
	wanted := q.Limit + 1
	// Mostly the page is spread over the buckets.
	some := 2*wanted/len(sources) + 2
	for ask = sources; len(ask) > 0; some *= 4 {
		if err := s.extend(ctx, q, from, ask, min(some, wanted)); err != nil {
			return nil, false, err
		}
		page = merge(sources, wanted)
		ask = nil
		for _, one := range sources {
			if one.rest != nil && (len(page) < wanted || one.rest.compare(page[wanted-1]) < 0) {
				ask = append(ask, one)
			}
		}
	}
	if len(page) > q.Limit {
		return page[:q.Limit], true, nil
	}
	return page, false, nil
}

// merge returns the first of all spots that are known, in order.
func merge(sources []*source, most int) (spots []spot) {
	for _, one := range sources {
		spots = append(spots, one.spots...)
	}
	slices.SortFunc(spots, spot.compare)
	return spots[:min(len(spots), most)]
}

// extend reads so many more members, at most, of each set of the sources.
func (s *Store) extend(ctx context.Context, q core.Query, from *cursor, sources []*source, some int) error {
	calls := make([]call, len(sources))
	for n, one := range sources {
		from := from
		if one.rest != nil {
			c := one.rest.cursor(0)
			from = &c
		}
		calls[n] = newCall(ctx, s.scripts.page, s.keys.bucket(q.Sinks[one.sink], one.bucket), pageArgs(q, from, one, some)...)
	}
	s.run(ctx, s.client, calls...)
	for n, c := range calls {
		reply, err := c.Slice()
		if err != nil {
			return fault("list", err)
		}
		sources[n].add(reply[1:], some, q)
	}
	return nil
}

// add takes what was read behind rest: of each set so many members at most. Where a
// set may have more, what the others have behind its last is read again.
func (one *source) add(sets []any, some int, q core.Query) {
	one.rest = nil
	for _, set := range sets {
		spots, whole := readSpots(set, one, q, some)
		one.spots = append(one.spots, spots...)
		if last := len(spots) - 1; !whole && (one.rest == nil || spots[last].compare(*one.rest) < 0) {
			one.rest = &spots[last]
		}
	}
	slices.SortFunc(one.spots, spot.compare)
	if one.rest != nil {
		one.spots = slices.DeleteFunc(one.spots, func(s spot) bool { return s.compare(*one.rest) > 0 })
	}
}

func pageArgs(q core.Query, from *cursor, one *source, some int) []any {
	set, low := "due", int64(0)
	if listsDead(q) {
		set = "dead"
	}
	if !q.DueAfter.IsZero() {
		low = whenMillis(core.When{At: q.DueAfter})
	}
	args := []any{set, some, low}
	if from == nil {
		return append(args, "", 0, 0, 0)
	}
	side := cmp.Or(cmp.Compare(one.sink, from.Sink), cmp.Compare(one.bucket, from.Bucket))
	return append(args, from.Due, side, from.Level, from.Seq)
}

// readSpots reads one set of a reply of page.lua: priority, how many are in flight,
// rank of the first, members and due times. whole: there are no more of the query.
func readSpots(set any, one *source, q core.Query, some int) (spots []spot, whole bool) {
	parts, _ := set.([]any)
	if len(parts) != 4 {
		return nil, true
	}
	before := int64(math.MaxInt64)
	if !q.DueBefore.IsZero() {
		before = whenMillis(core.When{At: q.DueBefore})
	}
	rank, members := number(parts[2]), parts[3].([]any)
	for n := 0; n+1 < len(members); n += 2 {
		member := text(members[n])
		due := millisText(members[n+1]).UnixMilli()
		if due >= before {
			return spots, true
		}
		if len(member) > seqLen {
			spots = append(spots, spot{sink: one.sink, bucket: one.bucket, level: int(number(parts[0])), due: due,
				seq: memberSeq(member), id: member[seqLen:], inFlight: rank+int64(n/2) < number(parts[1])})
		}
	}
	return spots, len(members) < 2*some || len(spots) == 0
}

func memberSeq(member string) (seq int64) {
	for _, c := range []byte(member[:seqLen]) {
		seq = seq<<8 | int64(c)
	}
	return seq
}

// peek reads the messages at spots and keeps those that the query selects.
func (s *Store) peek(ctx context.Context, q core.Query, spots []spot) ([]core.Entry, error) {
	type place struct{ sink, bucket int }
	wanted := make(map[place][]int)
	for n, sp := range spots {
		at := place{sp.sink, sp.bucket}
		wanted[at] = append(wanted[at], n)
	}
	var calls []call
	var places [][]int
	for at, ns := range wanted {
		var args []any
		for _, n := range ns {
			args = append(args, spots[n].id)
		}
		calls = append(calls, newCall(ctx, s.scripts.peek, s.keys.bucket(q.Sinks[at.sink], at.bucket), args...))
		places = append(places, ns)
	}
	s.run(ctx, s.client, calls...)
	found := make([]*core.Entry, len(spots))
	for n, c := range calls {
		reply, err := c.Slice()
		if err != nil {
			return nil, fault("list", err)
		}
		for i, one := range reply {
			at := places[n][i]
			found[at] = readPeeked(one, q.Sinks[spots[at].sink], spots[at], s.config.newest)
		}
	}
	return selected(found, q), nil
}

// readPeeked returns nil for a message that has gone meanwhile.
func readPeeked(reply any, sink string, sp spot, newest int) *core.Entry {
	parts, _ := reply.([]any)
	if len(parts) != 4 {
		return nil
	}
	m := &core.Message{ID: sp.id, Sink: sink}
	size, err := peeked{text(parts[0]), text(parts[1]), int(number(parts[2]))}.decode(newest, m)
	due := time.UnixMilli(sp.due)
	f := parseFailure(text(parts[3]), due)
	e := &core.Entry{Message: m, Reason: f.reason, Error: f.text, Due: due, BodySize: size}
	if err != nil {
		e.Error = err.Error()
	}
	if e.State = f.state("waiting"); sp.inFlight {
		e.State = core.Delivering
	}
	complete(e, f)
	return e
}

func selected(found []*core.Entry, q core.Query) []core.Entry {
	dead := listsDead(q)
	entries := make([]core.Entry, 0, len(found))
	for _, e := range found {
		if e == nil || q.Topic != "" && e.Message.Topic != q.Topic {
			continue
		}
		if dead {
			e.State = failure{reason: e.Reason}.state("dead")
			e.MayHaveBeenSent = e.Message.Attempt > 0
		}
		if len(q.States) > 0 && !slices.Contains(q.States, e.State) {
			continue
		}
		entries = append(entries, *e)
	}
	return entries
}
