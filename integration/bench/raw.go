package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The raw loops: what a bare client can do when it only moves data. They spread
// over as many keys as the bridge has buckets and use the best batch found.
const (
	rawKeys      = 16
	rawBatch     = 500
	rawPipelines = 4
	bodySize     = 200
)

func rawKey(kind string, n int) string { return fmt.Sprintf("raw:{%02d}:%s", n%rawKeys, kind) }

// rawPark writes n messages, id and body into a hash and id into a sorted set,
// with one HSET and one ZADD for each batch, pipelined. That is less than
// parking needs: nobody learns whether an id was there, and a delay would have
// to be resolved by the client's clock. With single set, each message has an
// HSETNX and a ZADD of its own in the pipeline, which tells that at least.
func rawPark(ctx context.Context, c *redis.Client, n int, due time.Time, single bool) (perSecond float64, err error) {
	body := make([]byte, bodySize)
	var next atomic.Int64
	began := time.Now()
	err = parallel(rawPipelines, func() error {
		for {
			batch := int(next.Add(1) - 1)
			if batch*rawBatch >= n {
				return nil
			}
			fields, members := make([]any, 0, 2*rawBatch), make([]redis.Z, 0, rawBatch)
			for i := range rawBatch {
				id := fmt.Sprintf("%013d%010d", due.UnixMilli(), batch*rawBatch+i)
				fields = append(fields, id, body)
				members = append(members, redis.Z{Score: float64(due.UnixMilli()), Member: id})
			}
			pipe := c.Pipeline()
			if single {
				for i, member := range members {
					pipe.HSetNX(ctx, rawKey("msg", batch), member.Member.(string), fields[2*i+1])
					pipe.ZAdd(ctx, rawKey("due", batch), member)
				}
			} else {
				pipe.HSet(ctx, rawKey("msg", batch), fields...)
				pipe.ZAdd(ctx, rawKey("due", batch), members...)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	})
	return float64(n) / time.Since(began).Seconds(), err
}

// rawTake reads ids that are due and their bodies; rawSettle removes them. Both
// are one script call for each batch, as a client that knew no ownership would
// do it.
const (
	rawTake = `local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then return {} end
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}`
	rawSettle = `redis.call('ZREM', KEYS[1], unpack(ARGV)) return redis.call('HDEL', KEYS[2], unpack(ARGV))`
)

// rawDrain takes and settles the n messages that rawPark wrote to be due by now.
func rawDrain(ctx context.Context, c *redis.Client, n int) (perSecond float64, err error) {
	take, settle := redis.NewScript(rawTake), redis.NewScript(rawSettle)
	began := time.Now()
	var next atomic.Int64
	err = parallel(rawPipelines, func() error {
		for {
			at := int(next.Add(1) - 1)
			if at >= rawKeys {
				return nil
			}
			if err := drainKey(ctx, c, take, settle, at, began); err != nil {
				return err
			}
		}
	})
	return float64(n) / time.Since(began).Seconds(), err
}

func drainKey(ctx context.Context, c *redis.Client, take, settle *redis.Script, at int, now time.Time) error {
	keys := []string{rawKey("due", at), rawKey("msg", at)}
	for {
		reply, err := take.Run(ctx, c, keys, now.UnixMilli(), rawBatch).Slice()
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
