package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

const (
	keyedMessages = 100_000
	keyedRounds   = 3
)

// measureKeyed: parking of messages that each have a key of their own, so that a
// batch goes into many buckets, beside that of messages that may go anywhere.
func measureKeyed(ctx context.Context, b *bench) error {
	for _, buckets := range []int{16, 256, 1024} {
		if err := keyedOf(ctx, b, buckets); err != nil {
			return err
		}
	}
	return nil
}

func keyedOf(ctx context.Context, b *bench, buckets int) (err error) {
	br, err := b.openProducer(ctx, buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	var raws, plain, keyed []float64
	var number atomic.Int64
	withKey := func(m *core.Message) {
		m.Delay, m.Key = time.Hour, strconv.AppendInt(nil, number.Add(1), 10)
	}
	for range keyedRounds {
		raw, err := rawPark(ctx, b.redis.client, keyedMessages, time.Now().Add(time.Hour), false)
		if err != nil {
			return err
		}
		raws = append(raws, raw)
		for _, way := range []struct {
			rates *[]float64
			edit  func(*core.Message)
		}{{&plain, in(time.Hour)}, {&keyed, withKey}} {
			began := time.Now()
			if err := br.fill(ctx, keyedMessages, bodySize, way.edit); err != nil {
				return err
			}
			*way.rates = append(*way.rates, keyedMessages/time.Since(began).Seconds())
		}
	}
	aim := "≥ 50 % up to 256"
	b.table.rates(fmt.Sprintf("park in batches of 500 at %d buckets, each message with a key of its own; beside it: without keys", buckets),
		median(keyed), median(plain), aim)
	b.table.rates("… without keys; raw: one HSET and one ZADD for 500 messages", median(plain), median(raws), "")
	return nil
}

// openProducer is a bridge that accepts and delivers nothing, on an empty Redis.
func (b *bench) openProducer(ctx context.Context, buckets int) (*bridge, error) {
	if err := b.redis.flush(ctx); err != nil {
		return nil, err
	}
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{b.redis.addr}, Buckets: buckets})
	if err != nil {
		return nil, err
	}
	d := &core.Dispatcher{Name: benchSink, Sink: &nullSink{}}
	return &bridge{in: core.NewBridge(store, core.Options{}, d).Interceptor, store: store, dispatcher: d, stop: store.Close}, nil
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
