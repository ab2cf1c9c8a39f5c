package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

var errStopping = errors.New("bucket has to be released")

// leaseRequest asks for the lease of one bucket.
type leaseRequest struct {
	*sinkServer
	call
	number int
	token  string
	asked  time.Time
}

// lease is the right to one bucket, for a time.
type lease struct {
	*sinkServer
	bucket   *bucket
	cancel   context.CancelCauseFunc
	expiry   *time.Timer // ends the lease by our own clock if Redis can't be reached
	asked    time.Time   // when it was last to be renewed; the loop's
	renewing atomic.Bool // it is being renewed
	failed   atomic.Bool // Redis did not answer the last renewal
	wakes    int64       // of the bucket, so far; the renewal's, as is clock
	clock    clockRange
	lost     bool // it ended before it was handed over; known when it has ended
}

// requestLease asks for the lease of a bucket; answered is called with what comes of it.
func (v *sinkServer) requestLease(number int) {
	v.requested[number] = true
	v.queued.requests = append(v.queued.requests, &leaseRequest{sinkServer: v, number: number, token: v.config.Instance + ":" + rand.Text()[:13]})
}

// sendLeaseRequests sends lease requests in one round trip to each server.
func (l *loop) sendLeaseRequests(ctx context.Context, requests []*leaseRequest) {
	asked, calls := time.Now(), make([]call, len(requests))
	for n, c := range requests {
		c.asked, c.call = asked, c.ownCall(ctx, c.sink, c.number, c.token)
		calls[n] = c.call
	}
	l.runInBackground(ctx, calls, func(n int) { l.post(func() { requests[n].answered(requests[n]) }) })
}

// answered deals with what Redis has answered to a lease request. After the last of several
// it looks once more at what fell to whom meanwhile.
func (v *sinkServer) answered(c *leaseRequest) {
	delete(v.requested, c.number)
	if owned, err := c.Int(); err != nil {
		v.warnOf(c.number, "lease request failed", err)
	} else if owned == 1 {
		v.enter(c)
	}
	if v.passed && len(v.requested) == 0 {
		v.passed = false
		v.beat()
	}
}

// enter begins a lease. By our own clock it ends a lease time after the request for
// it was sent, which is never later than Redis ends it. Leases that are renewed by one
// call fall due together, and those of other calls at other times.
func (v *sinkServer) enter(c *leaseRequest) {
	b := &bucket{store: v.Store, sink: v.sink, number: c.number, keys: v.keys.bucket(v.sink, c.number), token: c.token,
		alarm: v.alarm, sleep: newSleeper(), woken: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancelCause(context.Background())
	every := v.renewEvery()
	spread := (v.phase + time.Duration(c.number/renewedTogether)*every/ticksPerRenewal) % every
	t := &lease{sinkServer: v, bucket: b, cancel: cancel, asked: c.asked.Add(-spread)}
	t.expiry = time.AfterFunc(time.Until(c.asked.Add(v.leaseTime)), func() { cancel(core.ErrLeaseLost) })
	v.leases[c.number] = t
	v.owned.set(v.sink, c.number, b)
	if v.config.Final != nil {
		v.owned.tell(b) // the owner before may have left some
	}
	v.log.Debug("bucket owned", "bucket", c.number)
	if v.stopping {
		cancel(errStopping)
	}
	go v.hold(ctx, t)
}

// workPause is how long a work that failed rests before it is run again.
const workPause = 500 * time.Millisecond

// hold runs work on a bucket for as long as it is owned.
func (v *sinkServer) hold(ctx context.Context, t *lease) {
	for ctx.Err() == nil {
		err := v.work(ctx, t.bucket)
		if errors.Is(err, core.ErrLeaseLost) {
			t.cancel(core.ErrLeaseLost)
		}
		if errors.Is(err, errNewer) {
			v.log.Warn("bucket left to an instance of a newer version", "bucket", t.bucket.number, "err", err)
			t.cancel(errStopping)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		v.warnOf(t.bucket.number, "work on bucket failed and is restarted", err)
		select {
		case <-time.After(workPause):
		case <-ctx.Done():
		}
		v.release(ctx, t)
	}
	t.lost = errors.Is(context.Cause(ctx), core.ErrLeaseLost)
	v.post(func() { v.leaveBucket(t) })
}

// release puts back what a failed work left in flight: untouched if the work never
// got to know of it, else cut off, see core.Store.
func (v *sinkServer) release(ctx context.Context, t *lease) {
	var err error
	if b := t.bucket; len(b.inFlight) == 0 {
		err = b.settle(ctx, nil)
	} else {
		err = v.cutOff(ctx, b)
	}
	if errors.Is(err, core.ErrLeaseLost) {
		t.cancel(core.ErrLeaseLost)
	}
}

// cutOff owns a bucket again that is owned already, so that what is in flight goes
// back as for an owner who has died. If it fails, so does the next Take.
func (s *Store) cutOff(ctx context.Context, b *bucket) error {
	c := s.ownCall(ctx, b.sink, b.number, b.token)
	if _, err := b.run(ctx, &s.settles, c); err != nil {
		return err
	}
	switch owned, err := c.Int(); {
	case err != nil:
		return fault("own", err)
	case owned == 0:
		return core.ErrLeaseLost
	}
	b.inFlight = b.inFlight[:0]
	return nil
}

func (s *Store) ownCall(ctx context.Context, sink string, number int, token string) call {
	return newCall(ctx, s.scripts.own, s.keys.bucket(sink, number), token,
		s.keys.wakeChannel(s.config.Instance, sink), s.config.Lease.Milliseconds())
}

// leaveBucket is for a bucket whose work has returned. It does not wait until
// Redis knows: the server that should tell it may not answer.
func (v *sinkServer) leaveBucket(t *lease) {
	t.expiry.Stop()
	if t.lost {
		v.lost++
	}
	delete(v.leases, t.bucket.number)
	v.owned.remove(v.sink, t.bucket.number)
	v.settling++
	v.queued.releases = append(v.queued.releases, t)
}

// sendReleases lets other instances have buckets at once.
func (l *loop) sendReleases(ctx context.Context, leases []*lease) {
	calls := make([]call, len(leases))
	for n, t := range leases {
		calls[n] = newCall(ctx, l.scripts.release, t.bucket.keys[:1], t.bucket.token, l.keys.memberChannel(t.sink), l.config.Instance)
	}
	l.runInBackground(ctx, calls, func(n int) {
		if err := calls[n].Err(); err != nil {
			leases[n].warnOf(leases[n].bucket.number, "hand over bucket", err)
		}
		l.post(func() { leases[n].settling-- })
	})
}

// renewedTogether is how many leases of one sink one call renews; in a cluster each
// bucket may be in a slot of its own, and then in a call of its own. Most of what a
// call costs Redis is the same for any number.
const renewedTogether = 16

// renew renews the leases that are old enough, in one round trip to each server, but
// for those that are being renewed.
func (l *loop) renew(ctx context.Context, now time.Time) {
	together := renewedTogether
	if _, ok := l.keeping.(*redis.ClusterClient); ok {
		together = 1
	}
	var groups [][]*lease
	for _, v := range l.sinks {
		var due []*lease
		for _, t := range v.leases {
			if (t.failed.Load() || now.Sub(t.asked) >= l.renewEvery()) && t.renewing.CompareAndSwap(false, true) {
				t.asked = now
				due = append(due, t)
			}
		}
		groups = slices.AppendSeq(groups, slices.Chunk(due, together))
	}
	calls := make([]call, len(groups))
	for n, group := range groups {
		calls[n] = l.renewCall(ctx, group)
	}
	sent := time.Now()
	l.runInBackground(ctx, calls, func(n int) { renewed(groups[n], calls[n], sent) })
}

func (l *loop) renewCall(ctx context.Context, group []*lease) call {
	keys, args := make([]string, len(group)), []any{l.leaseTime.Milliseconds()}
	for n, t := range group {
		keys[n], args = t.bucket.keys[0], append(args, t.bucket.token)
	}
	return newCall(ctx, l.scripts.renew, keys, args...)
}

// renewed deals with what Redis has answered to a renewal of some leases.
func renewed(group []*lease, c call, sent time.Time) {
	reply, err := c.Int64Slice()
	if err == nil && len(reply) != len(group)+1 {
		err = errReply
	}
	for n, t := range group {
		if err == nil {
			t.renewed(reply[n+1], time.UnixMilli(reply[0]), sent)
		} // else the expiry decides
		t.failed.Store(err != nil)
		t.renewing.Store(false)
	}
}

// renewed is told how many wake-ups there were in the lease, or a negative number if it
// has ended.
func (t *lease) renewed(wakes int64, redis, sent time.Time) {
	if wakes < 0 {
		t.cancel(core.ErrLeaseLost)
		return
	}
	t.expiry.Reset(time.Until(sent.Add(t.leaseTime)))
	if t.missed(wakes, redis, sent) {
		t.bucket.signal()
	}
}

// missed reports whether the owner is to look into its bucket: a wake-up may have been
// lost, or Redis's clock has changed, by which the owner sleeps.
func (t *lease) missed(wakes int64, redis, sent time.Time) bool {
	woken, stepped := wakes != t.wakes, t.clock.stepped(redis, sent, time.Now())
	t.wakes = wakes
	return woken || stepped
}
