package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core/redisstore"
)

const (
	idleSinks   = 200
	idleBuckets = 16
	idleRest    = 7 * time.Second // until looks and renewals go their usual pace
	idleSpan    = 15 * time.Second
	idleRenewal = time.Second // a fifth of the default lease
)

// measureIdleSinks: what many sinks cost that have nothing to do, beside a bare
// client that only prolongs a key for each bucket.
func measureIdleSinks(ctx context.Context, b *bench) (err error) {
	rawSpent, err := rawRenewals(ctx, b, idleSinks*idleBuckets)
	if err != nil {
		return err
	}
	if err := b.redis.flush(ctx); err != nil {
		return err
	}
	i, err := b.openInstance(ctx, redisstore.Config{Buckets: idleBuckets}, nullSinks(sinkNames(idleSinks), &nullSink{})...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	i.begin()
	if _, err := settled(ctx, []*instance{i}, idleSinks*idleBuckets, 0); err != nil {
		return err
	}
	runtime.GC()
	time.Sleep(idleRest)
	ours, err := b.spentIn(ctx, func() { time.Sleep(idleSpan) })
	if err != nil {
		return err
	}
	connections, err := b.redis.info(ctx, "clients", "connected_clients")
	if err != nil {
		return err
	}
	b.table.shares(fmt.Sprintf("idle, %d sinks of %d buckets: bridge; raw: PEXPIRE for each bucket and second, pipelined", idleSinks, idleBuckets),
		ours.own, rawSpent.own, "≤ 2 % of a core")
	b.table.shares("… Redis", ours.redis, rawSpent.redis, "≤ 2 % of a core")
	b.table.row("… scripts a second", fmt.Sprintf("%.0f", ours.scripts), "", "", "")
	b.table.row("… connections, goroutines, files open", fmt.Sprintf("%d, %d, %d", connections-1, runtime.NumGoroutine(), openFiles()), "", "", "")
	return nil
}

// rawRenewals prolongs n keys a second over one connection.
func rawRenewals(ctx context.Context, b *bench, n int) (spent, error) {
	key := func(n int) string { return fmt.Sprintf("raw:{%04d}:owner", n) }
	renew := func(c redis.Pipeliner) {
		for at := range n {
			c.PExpire(ctx, key(at), 5*idleRenewal)
		}
	}
	pipe := b.redis.client.Pipeline()
	for at := range n {
		pipe.Set(ctx, key(at), "owner", 5*idleRenewal)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return spent{}, err
	}
	var failed error
	s, err := b.spentIn(ctx, func() {
		began := time.Now()
		for round := range int(idleSpan / idleRenewal) {
			pipe := b.redis.client.Pipeline()
			renew(pipe)
			if _, err := pipe.Exec(ctx); err != nil {
				failed = err
				return
			}
			time.Sleep(time.Until(began.Add(time.Duration(round+1) * idleRenewal)))
		}
	})
	return s, errors.Join(err, failed)
}

// spent is what a span of time cost: shares of a core, and scripts a second.
type spent struct{ own, redis, scripts float64 }

func (b *bench) spentIn(ctx context.Context, span func()) (s spent, err error) {
	own0, err0 := cpuTime(os.Getpid())
	redis0, err1 := cpuOf(ctx, b.redis.client)
	scripts0, err2 := b.scriptsRun(ctx)
	began := time.Now()
	span()
	seconds := time.Since(began).Seconds()
	own1, err3 := cpuTime(os.Getpid())
	redis1, err4 := cpuOf(ctx, b.redis.client)
	scripts1, err5 := b.scriptsRun(ctx)
	return spent{(own1 - own0).Seconds() / seconds, (redis1 - redis0).Seconds() / seconds, (scripts1 - scripts0) / seconds},
		errors.Join(err0, err1, err2, err3, err4, err5)
}

// scriptsRun is how many scripts Redis has run.
func (b *bench) scriptsRun(ctx context.Context) (total float64, err error) {
	text, err := b.redis.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		var calls float64
		name, rest, _ := strings.Cut(line, ":")
		if strings.HasPrefix(name, "cmdstat_eval") || name == "cmdstat_fcall" {
			if _, err := fmt.Sscanf(rest, "calls=%f", &calls); err != nil {
				return 0, fmt.Errorf("INFO commandstats has %q", line)
			}
			total += calls
		}
	}
	return total, nil
}

func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd") // Linux only
	return len(entries)
}

// shares prints a share of a core beside that of the bare client.
func (t *table) shares(what string, share, raw float64, aim string) {
	percent := func(share float64) string { return fmt.Sprintf("%.2f %% of a core", 100*share) }
	t.row(what, percent(share), percent(raw), times(share, raw), aim)
}
