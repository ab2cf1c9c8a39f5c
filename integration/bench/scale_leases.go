package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

// marks notes which of n messages came, and how often each was tried. The body
// of a message begins with its number.
type marks struct {
	mu       sync.Mutex
	attempts []int // the highest seen of each message
	came     int   // messages, each counted once
	again    int   // deliveries of what had come before
	spent    int   // attempts before the last, of all
	last     time.Time
	all      chan struct{}
}

func newMarks(n int) *marks { return &marks{attempts: make([]int, n), all: make(chan struct{})} }

func (k *marks) note(now time.Time, batch []*core.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range batch {
		n := binary.BigEndian.Uint64(m.Body)
		before := k.attempts[n]
		if before == 0 {
			k.came++
			k.last = now
			if k.came == len(k.attempts) {
				close(k.all)
			}
		} else {
			k.again++
		}
		k.attempts[n] = max(before, m.Attempt)
		k.spent += k.attempts[n] - max(before, 1)
	}
}

// measureLeases: a burst that outlasts the lease, over more and more buckets. No
// lease ends but by a fault, and there is none.
func measureLeases(ctx context.Context, b *bench) error {
	for _, shape := range []struct{ buckets, sinks int }{{16, 1}, {256, 1}, {1024, 1}, {16, 200}} {
		if err := leasesOf(ctx, b, shape.buckets, shape.sinks); err != nil {
			return fmt.Errorf("%d buckets of %d sinks: %w", shape.buckets, shape.sinks, err)
		}
	}
	return nil
}

func leasesOf(ctx context.Context, b *bench, buckets, sinks int) (err error) {
	loop := rawLoop{keys: buckets * sinks, batch: min(core.MaxTake, max(1, b.burst/(buckets*sinks)))}
	raw, err := b.rawBurst(ctx, loop)
	if err != nil {
		return err
	}
	seen := newMarks(b.burst)
	names := sinkNames(sinks)
	i, err := b.openInstance(ctx, redisstore.Config{Buckets: buckets, Lease: b.lease}, nullSinks(names, markSink(seen))...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	if err := fillEvenly(ctx, i.in, names, buckets, b.burst, loop.batch); err != nil {
		return err
	}
	if _, err := settled(ctx, []*instance{i}, buckets*sinks, 0); err != nil {
		return err
	}
	runtime.GC()
	pending := i.lost.Load()
	began := time.Now()
	i.begin()
	const patience = 90 * time.Second
	select {
	case <-seen.all:
		time.Sleep(b.lease) // a lease that was lost at the end would show now
	case <-time.After(patience):
	case <-ctx.Done():
		return ctx.Err()
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	took := seen.last.Sub(began)
	b.table.rates(fmt.Sprintf("burst of %d k over %d buckets of %d sinks; raw: as many keys", b.burst/1000, buckets, sinks),
		float64(seen.came)/took.Seconds(), raw, "")
	b.table.row(fmt.Sprintf("… in %.1f leases of %s: leases lost (and while it was parked), works that failed", took.Seconds()/b.lease.Seconds(), b.lease),
		fmt.Sprintf("%d (%d), %d", i.lost.Load()-pending, pending, i.failed.Load()), "", "", "0 (0), 0")
	b.table.row("… attempts spent, messages delivered again, not delivered", fmt.Sprintf("%d, %d, %d", seen.spent, seen.again, b.burst-seen.came),
		"", "", "0, 0, 0")
	return nil
}

// rawBurst is the rate at which a raw loop drains a burst, on a Redis that is
// empty before and after.
func (b *bench) rawBurst(ctx context.Context, loop rawLoop) (perSecond float64, err error) {
	if err := b.redis.flush(ctx); err != nil {
		return 0, err
	}
	if _, err := loop.park(ctx, b.redis.client, b.burst, time.Now(), false); err != nil {
		return 0, err
	}
	if perSecond, err = loop.drain(ctx, b.redis.client, b.burst); err != nil {
		return 0, err
	}
	return perSecond, b.redis.flush(ctx)
}

func markSink(seen *marks) *nullSink {
	sink := &nullSink{seen: seen.note}
	sink.expect(len(seen.attempts))
	return sink
}

// fillEvenly parks n messages that are due at once, a batch into each bucket of
// each sink in turn.
func fillEvenly(ctx context.Context, in *core.Interceptor, sinks []string, buckets, n, batch int) error {
	keys := bucketKeys(buckets)
	var next atomic.Int64
	return parallel(8, func() error {
		for {
			at := int(next.Add(1)) - 1
			if at*batch >= n {
				return nil
			}
			messages := make([]*core.Message, 0, batch)
			for number := at * batch; number < min(n, (at+1)*batch); number++ {
				body := binary.BigEndian.AppendUint64(make([]byte, 0, bodySize), uint64(number))[:bodySize]
				messages = append(messages, &core.Message{Sink: sinks[at%len(sinks)], Topic: "t", Key: keys[at/len(sinks)%buckets], Body: body})
			}
			for _, r := range in.Accept(ctx, messages...) {
				if r.Err != nil {
					return fmt.Errorf("accept: %w", r.Err)
				}
			}
		}
	})
}

// bucketKeys has a key for each bucket that leads into it.
func bucketKeys(buckets int) [][]byte {
	keys, found := make([][]byte, buckets), 0
	for n := 0; found < buckets; n++ {
		key := fmt.Appendf(nil, "k%d", n)
		if at := core.BucketOf(key, "", buckets); keys[at] == nil {
			keys[at] = key
			found++
		}
	}
	return keys
}
