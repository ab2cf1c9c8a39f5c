package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core/redisstore"
)

const (
	balanceBuckets = 16
	balanceDraws   = 3 // sets of names, as the names decide who owns what
	balanceLease   = time.Second
	balanceStill   = 2 * time.Second // without a move, it is settled
)

// measureBalance: how evenly instances share buckets, and how many move when one
// more comes and goes.
func measureBalance(ctx context.Context, b *bench) error {
	for _, n := range []int{5, 20} {
		var worst balance
		for draw := range balanceDraws {
			one, err := balanceOf(ctx, b, draw, n)
			if err != nil {
				return err
			}
			worst = worst.or(one)
		}
		name := fmt.Sprintf("%d buckets over %d instances, worst of %d sets of names: ", balanceBuckets, n, balanceDraws)
		b.table.row(name+"most owned − least owned", fmt.Sprint(worst.spread), "", "", "≤ 1")
		b.table.row("… instances that own none", fmt.Sprint(worst.none), fmt.Sprint(max(0, n-balanceBuckets)), "", "no more")
		b.table.row("… buckets that move when one more comes; raw: its share", fmt.Sprint(worst.join), fmt.Sprint(worst.joinShare), "", "no more")
		b.table.row("… when it goes again; raw: what it owned", fmt.Sprint(worst.leave), fmt.Sprint(worst.leaveShare), "", "no more")
	}
	return nil
}

type balance struct{ spread, none, join, joinShare, leave, leaveShare int }

// or has the worse of each figure.
func (a balance) or(o balance) balance {
	a.spread, a.none = max(a.spread, o.spread), max(a.none, o.none)
	if o.join-o.joinShare >= a.join-a.joinShare {
		a.join, a.joinShare = o.join, o.joinShare
	}
	if o.leave-o.leaveShare >= a.leave-a.leaveShare {
		a.leave, a.leaveShare = o.leave, o.leaveShare
	}
	return a
}

func balanceOf(ctx context.Context, b *bench, draw, n int) (found balance, err error) {
	if err := b.redis.flush(ctx); err != nil {
		return found, err
	}
	var instances []*instance
	defer func() {
		for _, i := range instances {
			err = errors.Join(err, i.stop())
		}
	}()
	add := func() error {
		i, err := b.openInstance(ctx, redisstore.Config{Buckets: balanceBuckets, Lease: balanceLease,
			Instance: fmt.Sprintf("draw%d-%d", draw, len(instances))}, nullSinks(sinkNames(1), &nullSink{})...)
		if err == nil {
			instances = append(instances, i)
		}
		return err
	}
	for range n {
		if err := add(); err != nil {
			return found, err
		}
	}
	before, err := settled(ctx, instances, balanceBuckets, balanceStill)
	if err != nil {
		return found, err
	}
	found.spread, found.none = spread(instances)
	if err := add(); err != nil {
		return found, err
	}
	with, err := settled(ctx, instances, balanceBuckets, balanceStill)
	if err != nil {
		return found, err
	}
	last := instances[n]
	found.join, found.joinShare = moved(before, with), (balanceBuckets+n)/(n+1)
	found.leaveShare = len(owners(instances[n:]))
	instances = instances[:n]
	if err := last.stop(); err != nil {
		return found, err
	}
	after, err := settled(ctx, instances, balanceBuckets, balanceStill)
	found.leave = moved(with, after)
	return found, err
}

// spread is how many more buckets one instance owns than another, and how many
// own none.
func spread(instances []*instance) (difference, none int) {
	most, least := 0, balanceBuckets
	for n := range instances {
		owns := len(owners(instances[n : n+1]))
		most, least = max(most, owns), min(least, owns)
		if owns == 0 {
			none++
		}
	}
	return most - least, none
}

func moved(before, after map[string]string) (n int) {
	for bucket, owner := range after {
		if before[bucket] != owner {
			n++
		}
	}
	return n
}
