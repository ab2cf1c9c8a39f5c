package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// claim asks for the ownership of one bucket.
type claim struct {
	call
	number int
	token  string
	asked  time.Time
}

// tenure is the time for which one bucket is owned.
type tenure struct {
	bucket   *bucket
	cancel   context.CancelCauseFunc
	expiry   *time.Timer // ends the tenure by our own clock if Redis can't be reached
	renewing atomic.Bool // it is being prolonged
	lost     bool        // it ended before it was handed over; known when it has ended
}

// acquire tries to own buckets, in one round trip to each server, and has answered
// called for each.
func (v *server) acquire(ctx context.Context, numbers []int) {
	asked := time.Now()
	claims, calls := make([]*claim, len(numbers)), make([]call, len(numbers))
	for n, number := range numbers {
		token := v.config.Instance + ":" + rand.Text()[:13]
		calls[n] = v.ownCall(ctx, number, token)
		claims[n] = &claim{call: calls[n], number: number, token: token, asked: asked}
		v.claimed[number] = true
	}
	v.runBeside(ctx, calls, func(n int) { v.claims <- claims[n] })
}

// answered deals with what Redis has answered to a claim. After the last of several
// it looks once more at what fell to whom meanwhile.
func (v *server) answered(ctx context.Context, c *claim) {
	delete(v.claimed, c.number)
	if epoch, err := c.Int64(); err != nil {
		v.log.Warn("take ownership failed", "bucket", c.number, "err", err)
	} else if epoch > 0 {
		v.enter(c, epoch)
	}
	if v.passed && len(v.claimed) == 0 {
		v.passed = false
		v.beat(ctx)
	}
}

// enter begins a tenure. By our own clock it ends a term after the request for
// it was sent, which is never later than Redis ends it.
func (v *server) enter(c *claim, epoch int64) {
	alarm, err := newAlarm()
	if err != nil {
		v.log.Error("own bucket", "bucket", c.number, "err", err)
		return
	}
	b := &bucket{store: v.Store, sink: v.sink, number: c.number, keys: v.keys.bucket(v.sink, c.number), token: c.token,
		alarm: alarm, woken: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &tenure{bucket: b, cancel: cancel}
	t.expiry = time.AfterFunc(time.Until(c.asked.Add(v.term)), func() { cancel(core.ErrOwnershipLost) })
	v.tenures[c.number] = t
	v.owned.set(v.sink, c.number, b)
	v.log.Debug("bucket owned", "bucket", c.number, "epoch", epoch)
	if v.stopping {
		cancel(errStopping)
	}
	go v.hold(ctx, t)
}

// workPause is how long a work that failed rests before it is run again.
const workPause = 500 * time.Millisecond

// hold runs work on a bucket for as long as it is owned.
func (v *server) hold(ctx context.Context, t *tenure) {
	var ticks sync.WaitGroup
	ticks.Go(t.bucket.alarm.run)
	for ctx.Err() == nil {
		err := v.work(ctx, t.bucket)
		if errors.Is(err, core.ErrOwnershipLost) {
			t.cancel(core.ErrOwnershipLost)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		v.log.Warn("work on bucket failed and is run again", "bucket", t.bucket.number, "err", err)
		select {
		case <-time.After(workPause):
		case <-ctx.Done():
		}
		v.release(ctx, t)
	}
	t.bucket.alarm.close()
	ticks.Wait()
	t.lost = errors.Is(context.Cause(ctx), core.ErrOwnershipLost)
	v.ended <- t
}

// release puts back what a failed work left in hand: untouched if the work never
// got to know of it, else with an attempt more, as it may have been sent.
func (v *server) release(ctx context.Context, t *tenure) {
	var err error
	if b := t.bucket; len(b.hand) == 0 {
		err = b.settle(ctx, nil)
	} else {
		err = v.cutOff(ctx, b)
	}
	if errors.Is(err, core.ErrOwnershipLost) {
		t.cancel(core.ErrOwnershipLost)
	}
}

// cutOff owns a bucket anew that is owned already, so that what is in hand goes
// back as for an owner who has died. If it fails, so does the next Take.
func (v *server) cutOff(ctx context.Context, b *bucket) error {
	c := v.ownCall(ctx, b.number, b.token)
	if _, err := b.run(ctx, &v.settles, c); err != nil {
		return err
	}
	switch epoch, err := c.Int64(); {
	case err != nil:
		return fault("own", err)
	case epoch <= 0:
		return core.ErrOwnershipLost
	}
	b.hand = b.hand[:0]
	return nil
}

func (v *server) ownCall(ctx context.Context, number int, token string) call {
	return newCall(ctx, v.scripts.own, v.keys.bucket(v.sink, number), token,
		v.keys.wakeChannel(v.config.Instance, v.sink), v.term.Milliseconds())
}

// leaveBucket is for a bucket whose work has returned. It does not wait until
// Redis knows: the server that should tell it may not answer.
func (v *server) leaveBucket(ctx context.Context, t *tenure) {
	t.expiry.Stop()
	if t.lost {
		v.lost++
	}
	delete(v.tenures, t.bucket.number)
	v.owned.remove(v.sink, t.bucket.number)
	v.beside.Go(func() { v.handOver(ctx, t.bucket) })
}

// handOver lets another instance have a bucket at once.
func (v *server) handOver(ctx context.Context, b *bucket) {
	c := newCall(ctx, v.scripts.release, b.keys[:1], b.token)
	v.Store.run(ctx, v.keeping, c)
	if err := c.Err(); err != nil {
		v.log.Warn("hand over bucket", "bucket", b.number, "err", err)
	}
	v.announce(ctx)
}

// renew prolongs the tenures, in one round trip to each server, but for those that
// are being prolonged.
func (v *server) renew(ctx context.Context) {
	var held []*tenure
	var calls []call
	for _, t := range v.tenures {
		if t.renewing.CompareAndSwap(false, true) {
			held = append(held, t)
			calls = append(calls, newCall(ctx, v.scripts.renew, t.bucket.keys[:1], t.bucket.token, v.term.Milliseconds()))
		}
	}
	until := time.Now().Add(v.term)
	v.runBeside(ctx, calls, func(n int) { held[n].renewed(calls[n], until) })
}

// renewed deals with what Redis has answered to a renewal that, if it was made,
// lasts until then at least.
func (t *tenure) renewed(c call, until time.Time) {
	switch kept, err := c.Int(); {
	case err != nil: // the expiry decides
	case kept == 0:
		t.cancel(core.ErrOwnershipLost)
	default:
		t.expiry.Reset(time.Until(until))
	}
	t.renewing.Store(false)
}
