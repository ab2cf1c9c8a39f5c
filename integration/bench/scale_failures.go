package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

// failingSink says of every message that it may go better later.
type failingSink struct{ attempts atomic.Int64 }

var errLater = core.Classify(core.Retry, errors.New("not now"))

func (s *failingSink) Deliver(_ context.Context, batch []*core.Message) error {
	s.attempts.Add(int64(len(batch)))
	errs := make(core.BatchError, len(batch))
	for n := range errs {
		errs[n] = errLater
	}
	return errs
}

func (s *failingSink) Close() error { return nil }

const (
	failingMessages = 200_000
	neighbourEvery  = 5 * time.Millisecond
	neighbourDelay  = 500 * time.Millisecond
	calmSpan        = 5 * time.Second
	failingSpan     = 10 * time.Second
)

// measureFailures: what a sink whose every message fails and is retried does to
// the lateness of its neighbour. The neighbour is measured alone before and after,
// as what else the machine does changes.
func measureFailures(ctx context.Context, b *bench) error {
	var calm, background []time.Duration
	var rate float64
	var cost time.Duration
	for _, failing := range []int{0, failingMessages, 0} {
		late, err := b.withFailing(ctx, failing, &rate, &cost)
		if err != nil {
			return err
		}
		if failing > 0 {
			background = late
		} else {
			calm = append(calm, late...)
		}
	}
	b.table.durations(fmt.Sprintf("lateness p50 beside %d k messages that fail and are retried; beside it: with none", failingMessages/1000),
		quantile(background, 0.50), quantile(calm, 0.50), "")
	b.table.durations("… p99", quantile(background, 0.99), quantile(calm, 0.99), "≤ 3 ×")
	b.table.row(fmt.Sprintf("… Redis's time for a failed attempt, of %s", perSecond(rate)), micros(cost), "", "", "")
	return nil
}

// withFailing is the lateness of a sink's messages while n messages of another
// fail, and, where there are some, how many attempts a second fail and what one
// costs Redis.
func (b *bench) withFailing(ctx context.Context, n int, rate *float64, cost *time.Duration) (late []time.Duration, err error) {
	if err := b.redis.flush(ctx); err != nil {
		return nil, err
	}
	failing, healthy := &failingSink{}, &nullSink{}
	healthy.expect(1)
	i, err := b.openInstance(ctx, redisstore.Config{}, &core.Dispatcher{Name: "failing", Sink: failing}, &core.Dispatcher{Name: "healthy", Sink: healthy})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	i.begin()
	if _, err := settled(ctx, []*instance{i}, 32, time.Second); err != nil {
		return nil, err
	}
	if n == 0 {
		return neighbour(ctx, i, healthy, calmSpan)
	}
	due := time.Now().Add(failingMessages / 60_000 * time.Second).Truncate(time.Millisecond)
	br := &bridge{in: i.in}
	if err := br.fill(ctx, n, bodySize, func(m *core.Message) { m.Sink, m.DeliverAt = "failing", due }); err != nil {
		return nil, err
	}
	time.Sleep(time.Until(due))
	attempts, began := failing.attempts.Load(), time.Now()
	before, err := cpuOf(ctx, b.redis.client)
	if err != nil {
		return nil, err
	}
	if late, err = neighbour(ctx, i, healthy, failingSpan); err != nil {
		return nil, err
	}
	after, err := cpuOf(ctx, b.redis.client)
	attempts = failing.attempts.Load() - attempts
	*rate, *cost = float64(attempts)/time.Since(began).Seconds(), (after-before)/time.Duration(max(1, attempts))
	return late, err
}

// neighbour sends messages to the healthy sink one by one and returns how late
// each came.
func neighbour(ctx context.Context, i *instance, healthy *nullSink, span time.Duration) ([]time.Duration, error) {
	n := int(span / neighbourEvery)
	var seen arrivals
	healthy.expect(n)
	healthy.seen = seen.note
	accepted := make(chan error, n)
	began := time.Now()
	for at := range n {
		time.Sleep(time.Until(began.Add(time.Duration(at) * neighbourEvery)))
		go func() { // an accept that takes long must not thin out what follows
			m := &core.Message{Sink: "healthy", Topic: "t", Body: body(bodySize), Delay: neighbourDelay}
			accepted <- i.in.Accept(ctx, m)[0].Err
		}()
	}
	for range n {
		if err := <-accepted; err != nil {
			return nil, fmt.Errorf("accept: %w", err)
		}
	}
	select {
	case <-healthy.reached:
		return seen.late, nil
	case <-time.After(time.Minute):
		return nil, errors.New("the neighbour's messages did not come within a minute")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
