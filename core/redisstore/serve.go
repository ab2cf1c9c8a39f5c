package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// server is one Serve: it keeps this instance in the set of those that serve
// the sink, and owns the buckets that fall to it.
type server struct {
	*Store
	sink    string
	work    func(context.Context, core.Bucket) error
	term    time.Duration
	live    []string
	tenures map[int]*tenure
	ended   chan *tenure
	log     *slog.Logger
	silent  bool // Redis did not answer the last beat, and that was logged
	refused bool // some bucket could not be asked for at the last attempt
	lost    int  // ownerships since the last turn
	leaving sync.WaitGroup
}

// tenure is the time for which one bucket is owned.
type tenure struct {
	bucket *bucket
	epoch  int64
	cancel context.CancelCauseFunc
	expiry *time.Timer // ends the tenure by our own clock if Redis can't be reached
	lost   bool        // it ended before it was handed over; known when it has ended
}

// Serve implements core.Store.
func (s *Store) Serve(ctx context.Context, sink string, work func(context.Context, core.Bucket) error) error {
	v := &server{Store: s, sink: sink, work: work, term: s.config.Ownership, tenures: make(map[int]*tenure),
		ended: make(chan *tenure, s.keys.buckets), log: s.config.Log.With("sink", sink, "instance", s.config.Instance)}
	return v.run(ctx)
}

func (v *server) run(ctx context.Context) error {
	// What ends the ownerships must still reach Redis when ctx has ended.
	inner := context.WithoutCancel(ctx)
	pubsub := v.serving.Subscribe(inner, v.keys.wakeChannel(v.config.Instance, v.sink), v.keys.memberChannel(v.sink))
	defer pubsub.Close()
	heard := pubsub.ChannelWithSubscriptions()
	tick := time.NewTicker(v.term / beatsPerTerm)
	defer tick.Stop()
	stopping := ctx.Done()
	v.beat(inner)
	v.announce(inner)
	for ctx.Err() == nil || len(v.tenures) > 0 {
		select {
		case <-stopping:
			stopping = nil
			v.depart(inner)
			for _, t := range v.tenures {
				t.cancel(errStopping)
			}
		case <-tick.C:
			v.turn(inner, ctx.Err() == nil)
		case note, open := <-heard:
			if !open { // the store has been closed, against its contract
				heard = nil
			}
			v.hear(inner, note, ctx.Err() == nil)
		case t := <-v.ended:
			v.leaveBucket(inner, t)
		}
	}
	if stopping != nil { // told to stop while it owned nothing
		v.depart(inner)
		v.announce(inner)
	}
	v.leaving.Wait()
	return nil
}

// patience is how long one call of the loop may take, where a master of a cluster
// does not answer: two such calls, and what the others have is renewed in time.
func (v *server) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, v.term/3)
}

// turn is one heartbeat: prolong what is owned, and see who else is there.
func (v *server) turn(ctx context.Context, serving bool) {
	if v.lost > 0 {
		v.log.Warn("ownership of buckets was lost, as it was not renewed in time; what was being delivered is delivered again", "buckets", v.lost)
		v.lost = 0
	}
	v.renew(ctx)
	if serving {
		v.beat(ctx)
	}
}

// hear takes what another instance said, or that the line to Redis is back, so
// that something may have gone unheard.
func (v *server) hear(ctx context.Context, note any, serving bool) {
	switch n := note.(type) {
	case *redis.Subscription:
		v.owned.wakeAll(v.sink)
	case *redis.Message:
		if n.Channel == v.keys.memberChannel(v.sink) {
			if n.Payload != v.config.Instance && serving && !v.refused {
				v.beat(ctx)
			}
			return
		}
		if number, err := strconv.Atoi(n.Payload); err == nil {
			v.owned.wake(v.sink, number)
		}
	}
}

// beat says that this instance is alive and takes the buckets that fall to it.
func (v *server) beat(ctx context.Context) {
	live, err := v.announced(ctx)
	if err != nil {
		if !v.silent {
			v.log.Warn("heartbeat failed", "err", err)
		}
		v.silent = true
		return
	}
	if v.silent {
		v.log.Info("heartbeat is back")
	}
	v.silent = false
	v.live = live
	v.rebalance(ctx)
}

// announced puts this instance among those that serve the sink, and returns
// them.
func (v *server) announced(ctx context.Context) ([]string, error) {
	ctx, cancel := v.patience(ctx)
	defer cancel()
	c := newCall(ctx, v.scripts.beat, []string{v.keys.members(v.sink)}, v.config.Instance, v.term.Milliseconds())
	v.Store.run(ctx, v.serving, c)
	return c.StringSlice()
}

// rebalance gives back the buckets that fall to others and takes those that
// fall to this instance and are free.
func (v *server) rebalance(ctx context.Context) {
	var wanted []int
	for n := range v.keys.buckets {
		mine := rendezvous(v.live, v.sink, n) == v.config.Instance
		t := v.tenures[n]
		switch {
		case mine && t == nil:
			wanted = append(wanted, n)
		case !mine && t != nil:
			t.cancel(errStopping)
		}
	}
	v.acquire(ctx, wanted)
}

// rendezvous is the instance that a bucket falls to: that with the highest hash
// of instance and bucket. When an instance comes or goes, only buckets that it
// takes or leaves move.
func rendezvous(live []string, sink string, number int) string {
	var best string
	var top uint64
	for _, instance := range live {
		h := fnv.New64a()
		h.Write([]byte(instance + "\x00" + sink + "\x00" + strconv.Itoa(number)))
		if sum := mix(h.Sum64()); best == "" || sum > top || sum == top && instance > best {
			best, top = instance, sum
		}
	}
	return best
}

// mix spreads the bits of a hash whose last bytes hardly reach its high bits.
// It is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// acquire tries to own buckets, in one round trip to each server.
func (v *server) acquire(ctx context.Context, numbers []int) {
	v.refused = false
	if len(numbers) == 0 {
		return
	}
	ctx, cancel := v.patience(ctx)
	defer cancel()
	asked := time.Now()
	calls, tokens := make([]call, len(numbers)), make([]string, len(numbers))
	for n, number := range numbers {
		tokens[n] = v.config.Instance + ":" + rand.Text()[:13]
		calls[n] = v.ownCall(ctx, number, tokens[n])
	}
	v.runByServer(ctx, v.serving, calls...)
	for n, c := range calls {
		if epoch, err := c.Int64(); err != nil {
			v.refused = true
			v.log.Warn("take ownership failed", "bucket", numbers[n], "err", err)
		} else if epoch > 0 {
			v.enter(numbers[n], tokens[n], epoch, asked)
		}
	}
}

// enter begins a tenure. By our own clock it ends a term after the request for
// it was sent, which is never later than Redis ends it.
func (v *server) enter(number int, token string, epoch int64, asked time.Time) {
	alarm, err := newAlarm()
	if err != nil {
		v.log.Error("own bucket", "bucket", number, "err", err)
		return
	}
	b := &bucket{store: v.Store, sink: v.sink, number: number, keys: v.keys.bucket(v.sink, number), token: token,
		alarm: alarm, woken: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &tenure{bucket: b, epoch: epoch, cancel: cancel}
	t.expiry = time.AfterFunc(time.Until(asked.Add(v.term)), func() { cancel(core.ErrOwnershipLost) })
	v.tenures[number] = t
	v.owned.set(v.sink, number, b)
	v.log.Debug("bucket owned", "bucket", number, "epoch", epoch)
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
	v.Store.run(ctx, v.serving, c)
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
	v.leaving.Go(func() { v.handOver(ctx, t.bucket) })
}

// handOver lets another instance have a bucket at once.
func (v *server) handOver(ctx context.Context, b *bucket) {
	c := newCall(ctx, v.scripts.release, b.keys, b.token)
	v.Store.run(ctx, v.serving, c)
	if err := c.Err(); err != nil {
		v.log.Warn("hand over bucket", "bucket", b.number, "err", err)
	}
	v.announce(ctx)
}

// renew prolongs the tenures, in one round trip to each server.
func (v *server) renew(ctx context.Context) {
	if len(v.tenures) == 0 {
		return
	}
	ctx, cancel := v.patience(ctx)
	defer cancel()
	asked := time.Now()
	held, calls := make([]*tenure, 0, len(v.tenures)), make([]call, 0, len(v.tenures))
	for _, t := range v.tenures {
		held = append(held, t)
		calls = append(calls, newCall(ctx, v.scripts.renew, t.bucket.keys, t.bucket.token, v.term.Milliseconds()))
	}
	byServer(ctx, v.serving, calls, func(p *part) {
		v.Store.run(ctx, v.serving, p.calls...)
		for n, c := range p.calls { // at once: another server may not answer for long
			held[p.at[n]].renewed(c, asked.Add(v.term))
		}
	})
}

// renewed deals with what Redis has answered to a renewal until then.
func (t *tenure) renewed(c call, until time.Time) {
	switch kept, err := c.Int(); {
	case err != nil: // the expiry decides
	case kept == 0:
		t.cancel(core.ErrOwnershipLost)
	default:
		t.expiry.Reset(time.Until(until))
	}
}

// announce tells the other instances that there is something to take or give.
func (v *server) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, v.config.timeout)
	defer cancel()
	if err := v.serving.Publish(ctx, v.keys.memberChannel(v.sink), v.config.Instance).Err(); err != nil {
		v.log.Debug("announce", "err", err) // the others' heartbeats find out as well
	}
}

// depart takes this instance out of the set of those that serve the sink, so
// that its buckets fall to others from now on.
func (v *server) depart(ctx context.Context) {
	c := newCall(ctx, v.scripts.beat, []string{v.keys.members(v.sink)}, v.config.Instance, 0)
	v.Store.run(ctx, v.serving, c)
}
