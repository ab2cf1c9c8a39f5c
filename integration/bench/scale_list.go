package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

const (
	listedMessages = 100_000
	listedPage     = 100
	listedRounds   = 21
)

// measureList: one page of a list, beside the least that a client must ask for to
// make it: the first of each bucket, and the bodies of the page.
func measureList(ctx context.Context, b *bench) error {
	for _, buckets := range []int{16, 1024} {
		if err := listOf(ctx, b, buckets); err != nil {
			return err
		}
	}
	return nil
}

func listOf(ctx context.Context, b *bench, buckets int) (err error) {
	br, err := b.openProducer(ctx, buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	random := func(m *core.Message) { m.Delay = time.Hour + rand.N(time.Hour) }
	if err := br.fill(ctx, listedMessages, bodySize, random); err != nil {
		return err
	}
	loop := rawLoop{keys: buckets, batch: min(core.MaxTake, listedMessages/buckets)}
	if _, err := loop.park(ctx, b.redis.client, listedMessages, time.Now().Add(time.Hour), false); err != nil {
		return err
	}
	var pages, raws []time.Duration
	for range listedRounds {
		began := time.Now()
		page, err := br.store.List(ctx, core.Query{Sinks: []string{benchSink}, Limit: listedPage})
		if err != nil {
			return err
		}
		if len(page.Entries) != listedPage {
			return fmt.Errorf("a page has %d entries", len(page.Entries))
		}
		pages = append(pages, time.Since(began))
		took, err := loop.page(ctx, b.redis.client)
		if err != nil {
			return err
		}
		raws = append(raws, took)
	}
	b.table.durations(fmt.Sprintf("page of %d at %d buckets, p50; raw: ZRANGE of the first of each bucket and HMGET of %d, pipelined",
		listedPage, buckets, listedPage), median(pages), median(raws), "")
	return nil
}

// page reads the first of each key and then a page of bodies, in two round trips.
func (l rawLoop) page(ctx context.Context, c *redis.Client) (time.Duration, error) {
	began := time.Now()
	pipe := c.Pipeline()
	for n := range l.keys {
		pipe.ZRangeWithScores(ctx, l.key("due", n), 0, 0)
	}
	firsts, err := pipe.Exec(ctx)
	if err != nil {
		return 0, err
	}
	pipe = c.Pipeline()
	each := max(1, listedPage/l.keys)
	for n := range min(l.keys, listedPage) {
		first := firsts[n].(*redis.ZSliceCmd).Val()[0]
		ids := make([]string, each)
		for i := range ids {
			ids[i] = first.Member.(string)
		}
		pipe.HMGet(ctx, l.key("msg", n), ids...)
	}
	_, err = pipe.Exec(ctx)
	return time.Since(began), err
}
