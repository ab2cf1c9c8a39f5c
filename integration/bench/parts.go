package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const million = 1_000_000

// measurePark: single messages from many callers at once, against two raw loops.
func measurePark(ctx context.Context, b *bench) error {
	const n, callers = 600_000, 1024
	var raws [2]float64
	for i, single := range []bool{true, false} {
		var err error
		if raws[i], err = rawPark(ctx, b.redis.client, n, time.Now().Add(time.Hour), single); err != nil {
			return err
		}
		if err := b.redis.flush(ctx); err != nil {
			return err
		}
	}
	br, err := b.openBridge(ctx)
	if err != nil {
		return err
	}
	rate, err := br.parkSingles(ctx, n, callers)
	b.table.rates(fmt.Sprintf("park, %d callers of one message each; raw: HSETNX and ZADD a message, pipelined", callers), rate, raws[0], "≥ 60 %")
	b.table.rates("… raw: one HSET and one ZADD for 500 messages", rate, raws[1], "")
	return errors.Join(err, br.stop())
}

// parkSingles parks n messages, each by a call of its own.
func (br *bridge) parkSingles(ctx context.Context, n, callers int) (rate float64, err error) {
	shared := body(bodySize)
	began := time.Now()
	var next atomic.Int64
	err = parallel(callers, func() error {
		for next.Add(1) <= int64(n) {
			if r := br.in.Accept(ctx, message(shared, in(time.Hour)))[0]; r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
	return float64(n) / time.Since(began).Seconds(), err
}

// measureBurst: a million messages due at one instant, into a null sink.
func measureBurst(ctx context.Context, b *bench) error {
	raw, rate, first, err := burst(ctx, b, million, 0)
	if err != nil {
		return err
	}
	b.table.rates("burst of 1 M, drained into a null sink", rate, raw, "≥ 60 %")
	b.table.row("first message of the burst, late by", millis(first), "", "", "≤ 10 ms")
	return nil
}

// burst drains n messages due at one instant, with others parked, and returns
// the raw rate, ours, and how late the first message was.
func burst(ctx context.Context, b *bench, n, others int) (raw, rate float64, first time.Duration, err error) {
	for _, part := range []struct {
		n   int
		due time.Time
	}{{others, time.Now().Add(24 * time.Hour)}, {n, time.Now()}} {
		if _, err = rawPark(ctx, b.redis.client, part.n, part.due, false); err != nil {
			return
		}
	}
	if raw, err = rawDrain(ctx, b.redis.client, n); err != nil {
		return
	}
	if err = b.redis.flush(ctx); err != nil {
		return
	}
	br, err := b.openBridge(ctx)
	if err != nil {
		return
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	if err = br.fill(ctx, others, bodySize, in(24*time.Hour)); err != nil {
		return
	}
	rate, first, err = br.drain(ctx, n)
	return
}

// drain parks n messages due at one instant, and returns how fast they came and how late
// the first was.
func (br *bridge) drain(ctx context.Context, n int) (rate float64, first time.Duration, err error) {
	due := time.Now().Add(time.Duration(n/60_000+2) * time.Second).Truncate(time.Millisecond)
	br.sink.expect(n)
	if err := br.fill(ctx, n, bodySize, at(due)); err != nil {
		return 0, 0, err
	}
	if time.Until(due) < 200*time.Millisecond {
		return 0, 0, errors.New("parking took longer than planned; the burst is void")
	}
	runtime.GC()
	select {
	case <-br.sink.reached:
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	rate = float64(n) / time.Unix(0, br.sink.last.Load()).Sub(due).Seconds()
	return rate, time.Unix(0, br.sink.first.Load()).Sub(due), nil
}

// measureMemory: what a parked message costs Redis over its body.
func measureMemory(ctx context.Context, b *bench) error {
	for _, size := range []int{16, 200} {
		if err := b.redis.flush(ctx); err != nil {
			return err
		}
		br, err := b.openBridge(ctx)
		if err != nil {
			return err
		}
		before, err := b.redis.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		if err := br.fill(ctx, million, size, in(24*time.Hour)); err != nil {
			return err
		}
		if err := br.stop(); err != nil {
			return err
		}
		after, err := b.redis.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		b.table.row(fmt.Sprintf("Redis memory a message over a body of %d B, 1 M parked", size),
			fmt.Sprintf("%.0f B", float64(after-before)/million-float64(size)), "", "", "≤ 230 B")
	}
	return nil
}

// measureIdle: processor time of bridge and Redis with a million messages
// parked for tomorrow.
func measureIdle(ctx context.Context, b *bench) (err error) {
	br, err := b.openBridge(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	if err := br.fill(ctx, million, bodySize, in(24*time.Hour)); err != nil {
		return err
	}
	runtime.GC()
	time.Sleep(3 * time.Second) // let the append-only file settle
	const span = 30 * time.Second
	used := func() (time.Duration, error) {
		redis, err := cpuTime(b.redis.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		own, err := cpuTime(os.Getpid())
		return redis + own, err
	}
	commands := func() (int64, error) { return b.redis.info(ctx, "stats", "total_commands_processed") }
	cpu0, err := used()
	if err != nil {
		return err
	}
	commands0, err := commands()
	if err != nil {
		return err
	}
	time.Sleep(span)
	cpu1, err1 := used()
	commands1, err2 := commands()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.table.row("idle for 30 s, 1 M parked: bridge and Redis together", fmt.Sprintf("%.2f %% of a core", 100*(cpu1-cpu0).Seconds()/span.Seconds()), "", "", "< 0.5 %")
	b.table.row("… commands a second that Redis ran", fmt.Sprintf("%.1f", float64(commands1-commands0)/span.Seconds()), "", "", "heartbeats and guard only")
	return nil
}

// measureGrowth: do the burst and the lateness change with what is parked?
func measureGrowth(ctx context.Context, b *bench) error {
	sizes := []int{10_000, 100_000, million}
	if b.large {
		sizes = append(sizes, 10*million)
	}
	for _, others := range sizes {
		raw, rate, err := medianBurst(ctx, b, 500_000, others)
		if err != nil {
			return err
		}
		b.table.rates(fmt.Sprintf("burst of 500 k, %d k others parked, median of 3", others/1000), rate, raw, "within 15 % of each other")
		br, err := b.openBridge(ctx)
		if err != nil {
			return err
		}
		var seen arrivals
		err = lateness(ctx, br, 10*time.Second, &seen)
		if err := errors.Join(err, br.stop()); err != nil {
			return err
		}
		b.table.row(fmt.Sprintf("lateness p50 / p99, %d k others parked", others/1000),
			millis(quantile(seen.late, 0.50))+" / "+millis(quantile(seen.late, 0.99)), "", "", "within 15 % of each other")
	}
	return nil
}

// medianBurst is burst three times on an emptied Redis, by the middle rate.
func medianBurst(ctx context.Context, b *bench, n, others int) (raw, rate float64, err error) {
	type run struct{ raw, rate float64 }
	var runs []run
	for range 3 {
		if err := b.redis.flush(ctx); err != nil {
			return 0, 0, err
		}
		raw, rate, _, err := burst(ctx, b, n, others)
		if err != nil {
			return 0, 0, err
		}
		runs = append(runs, run{raw, rate})
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.rate, b.rate) })
	return runs[1].raw, runs[1].rate, nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }
