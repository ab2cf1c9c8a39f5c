package redisstore

import (
	"cmp"
	"context"

	"github.com/delaybridge/delaybridge/core"
)

// maxCounts bounds the counts of one timeline: steps times buckets. Each takes Redis
// some microseconds, and up to ten times that if all priorities are used.
const maxCounts = 1 << 16

// Timeline implements core.Inspector.
func (s *Store) Timeline(ctx context.Context, q core.TimelineQuery) (core.Timeline, error) {
	steps, buckets := q.Steps(), len(q.Sinks)*s.keys.buckets
	if steps*buckets > maxCounts {
		return core.Timeline{}, core.Invalidf("step", "%d steps of %d buckets are too many counts; at most %d steps, or fewer sinks", steps, buckets, maxCounts/buckets)
	}
	var calls []call
	for _, sink := range q.Sinks {
		for number := range s.keys.buckets {
			calls = append(calls, newCall(ctx, s.scripts.timeline, s.keys.bucket(sink, number), q.From.UnixMilli(), q.Step.Milliseconds(), steps))
		}
	}
	s.run(ctx, s.client, calls...)
	found := core.Timeline{Due: make([]int, steps)}
	for _, c := range calls {
		counts, err := c.Int64Slice()
		if err != nil || len(counts) != steps+2 {
			return core.Timeline{}, fault("count what is due", cmp.Or(err, errReply))
		}
		found.Before += int(counts[0])
		found.After += int(counts[steps+1])
		for n := range found.Due {
			found.Due[n] += int(counts[n+1])
		}
	}
	return found, nil
}
