package redisstore

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// countedTogether is how many buckets of one sink one call counts; in a cluster each
// bucket may be in a slot of its own.
const countedTogether = 16

// count is one call of count.lua.
type count struct {
	call
	stats    *core.SinkStats // that it adds to
	from, to int             // the buckets
	highest  int             // priority that it counts
}

// Stats implements core.Inspector. It makes one round trip to each server, and a second
// one where it meets a higher priority than before.
func (s *Store) Stats(ctx context.Context, sinks ...string) ([]core.SinkStats, error) {
	stats, together := make([]core.SinkStats, len(sinks)), countedTogether
	if _, ok := s.client.(*redis.ClusterClient); ok {
		together = 1
	}
	var counts []*count
	for n, sink := range sinks {
		stats[n] = core.SinkStats{Sink: sink, Buckets: s.keys.buckets}
		highest, _ := s.highest.Load(sink)
		known, _ := highest.(int)
		for from := 0; from < s.keys.buckets; from += together {
			counts = append(counts, &count{stats: &stats[n], from: from, to: min(from+together, s.keys.buckets), highest: known})
		}
	}
	for len(counts) > 0 {
		if err := s.runCounts(ctx, counts); err != nil {
			return nil, err
		}
		var again []*count
		for _, c := range counts {
			if !c.add() {
				s.highest.Store(c.stats.Sink, c.highest)
				again = append(again, c)
			}
		}
		counts = again
	}
	return stats, nil
}

func (s *Store) runCounts(ctx context.Context, counts []*count) error {
	calls := make([]call, len(counts))
	for n, c := range counts {
		var keys []string
		for number := c.from; number < c.to; number++ {
			keys = s.keys.appendCounted(keys, c.stats.Sink, number, c.highest)
		}
		c.call = newCall(ctx, s.scripts.count, keys, c.highest)
		calls[n] = c.call
	}
	s.run(ctx, s.client, calls...)
	for _, c := range calls {
		if reply, err := c.Int64Slice(); err != nil || len(reply) != 8 {
			return fault("count", cmp.Or(err, errReply))
		}
	}
	return nil
}

// add adds the reply to the stats, or returns false if there are higher priorities than
// it counts: the call is then to be made again.
func (c *count) add() bool {
	reply := c.Val().([]any)
	if top := int(number(reply[7])); top > c.highest {
		c.highest = top
		return false
	}
	st := c.stats
	st.Scheduled += int(number(reply[0]))
	st.Due += int(number(reply[1]))
	st.Retrying += int(number(reply[2]))
	st.Dead += int(number(reply[3]))
	st.Owned += int(number(reply[4]))
	if next := millis(reply[5]); number(reply[5]) != 0 && (st.NextDue.IsZero() || next.Before(st.NextDue)) {
		st.NextDue = next
		st.Overdue = max(st.Overdue, millis(reply[6]).Sub(next))
	}
	return true
}
