package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

const (
	byIDCalls = 2_000
	byIDMost  = 4 * time.Second // for each kind of call
)

// measureByID: what a call by a producer's ID costs Redis, beside one by a
// generated ID, which tells its bucket.
func measureByID(ctx context.Context, b *bench) error {
	for _, buckets := range []int{1, 16, 1024} {
		if err := byIDOf(ctx, b, buckets); err != nil {
			return err
		}
	}
	return nil
}

func byIDOf(ctx context.Context, b *bench, buckets int) (err error) {
	br, err := b.openProducer(ctx, buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	own, generated := make([]string, byIDCalls), make([]string, byIDCalls)
	for n := range byIDCalls {
		messages := []*core.Message{message(body(bodySize), in(time.Hour)), message(body(bodySize), in(time.Hour))}
		messages[0].ID = fmt.Sprintf("order-%d", n)
		for i, r := range br.in.Accept(ctx, messages...) {
			if r.Err != nil {
				return r.Err
			}
			[][]string{own, generated}[i][n] = r.ID
		}
	}
	for _, call := range []struct {
		name string
		do   func(core.Ref) error
	}{
		{"get", func(ref core.Ref) error { _, err := br.store.Get(ctx, ref); return err }},
		{"cancel", func(ref core.Ref) error { _, err := br.store.Cancel(ctx, ref); return err }},
	} {
		costly, err := costByID(ctx, b, own, call.do)
		if err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		cheap, err := costByID(ctx, b, generated, call.do)
		if err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		b.table.row(fmt.Sprintf("%s by a producer's id at %d buckets, Redis's time; beside it: by a generated id", call.name, buckets),
			micros(costly), micros(cheap), times(float64(costly), float64(cheap)), "")
	}
	return nil
}

// costByID is Redis's processor time for a call.
func costByID(ctx context.Context, b *bench, ids []string, do func(core.Ref) error) (time.Duration, error) {
	before, err := cpuOf(ctx, b.redis.client)
	if err != nil {
		return 0, err
	}
	calls := 0
	for began := time.Now(); calls < len(ids) && time.Since(began) < byIDMost; calls++ {
		if err := do(core.Ref{ID: ids[calls], Sink: benchSink}); err != nil {
			return 0, err
		}
	}
	after, err := cpuOf(ctx, b.redis.client)
	return (after - before) / time.Duration(calls), err
}
