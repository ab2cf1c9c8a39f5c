package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	rawPipelines = 4
	bodySize     = 200
)

// rawLoop is what a bare client can do when it only moves data. It spreads over
// as many keys as the bridge has buckets, a batch for each in turn.
type rawLoop struct{ keys, batch int }

// usual has the default number of buckets and the best batch found.
var usual = rawLoop{keys: 16, batch: 500}

func (l rawLoop) key(kind string, n int) string {
	return fmt.Sprintf("raw:{%02d}:%s", n%l.keys, kind)
}

func rawPark(ctx context.Context, c *redis.Client, n int, due time.Time, single bool) (perSecond float64, err error) {
	return usual.park(ctx, c, n, due, single)
}

func rawDrain(ctx context.Context, c *redis.Client, n int) (perSecond float64, err error) {
	return usual.drain(ctx, c, n)
}

// park writes n messages, id and body into a hash and id into a sorted set,
// with one HSET and one ZADD for each batch, pipelined. That is less than
// parking needs: nobody learns whether an id was there, and a delay would have
// to be resolved by the client's clock. With single set, each message has an
// HSETNX and a ZADD of its own in the pipeline, which tells that at least.
func (l rawLoop) park(ctx context.Context, c *redis.Client, n int, due time.Time, single bool) (perSecond float64, err error) {
	body := make([]byte, bodySize)
	var next atomic.Int64
	began := time.Now()
	err = parallel(rawPipelines, func() error {
		for {
			batch := int(next.Add(1) - 1)
			if batch*l.batch >= n {
				return nil
			}
			fields, members := make([]any, 0, 2*l.batch), make([]redis.Z, 0, l.batch)
			for i := range l.batch {
				id := fmt.Sprintf("%013d%010d", due.UnixMilli(), batch*l.batch+i)
				fields = append(fields, id, body)
				members = append(members, redis.Z{Score: float64(due.UnixMilli()), Member: id})
			}
			pipe := c.Pipeline()
			if single {
				for i, member := range members {
					pipe.HSetNX(ctx, l.key("msg", batch), member.Member.(string), fields[2*i+1])
					pipe.ZAdd(ctx, l.key("due", batch), member)
				}
			} else {
				pipe.HSet(ctx, l.key("msg", batch), fields...)
				pipe.ZAdd(ctx, l.key("due", batch), members...)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	})
	return float64(n) / time.Since(began).Seconds(), err
}

// rawTake reads ids that are due and their bodies; rawSettle removes them. Both
// are one script call for each batch, as a client that knew no lease would
// do it.
const (
	rawTake = `local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then return {} end
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}`
	rawSettle = `redis.call('ZREM', KEYS[1], unpack(ARGV)) return redis.call('HDEL', KEYS[2], unpack(ARGV))`
)

// drain takes and settles the n messages that park wrote to be due by now.
func (l rawLoop) drain(ctx context.Context, c *redis.Client, n int) (perSecond float64, err error) {
	take, settle := redis.NewScript(rawTake), redis.NewScript(rawSettle)
	began := time.Now()
	var next atomic.Int64
	err = parallel(rawPipelines, func() error {
		for {
			at := int(next.Add(1) - 1)
			if at >= l.keys {
				return nil
			}
			if err := l.drainKey(ctx, c, take, settle, at, began); err != nil {
				return err
			}
		}
	})
	return float64(n) / time.Since(began).Seconds(), err
}

func (l rawLoop) drainKey(ctx context.Context, c *redis.Client, take, settle *redis.Script, at int, now time.Time) error {
	keys := []string{l.key("due", at), l.key("msg", at)}
	for {
		reply, err := take.Run(ctx, c, keys, now.UnixMilli(), l.batch).Slice()
		if err != nil || len(reply) == 0 {
			return err
		}
		if err := settle.Run(ctx, c, keys, reply[0].([]any)...).Err(); err != nil {
			return err
		}
	}
}

// parallel runs work n times at once and returns the first error.
func parallel(n int, work func() error) error {
	var group sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		group.Go(func() { errs <- work() })
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
