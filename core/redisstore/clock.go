package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// serverClock knows bounds of the clock of one Redis server. The zero value knows
// nothing. Safe for concurrent use.
type serverClock struct {
	mu sync.Mutex
	// The server's clock was within low and high when ours, whose monotonic reading
	// is what counts, was at.
	low, high, at time.Time
}

// maxDrift is by how much two clocks may run apart, as a share of the time: what NTP
// corrects by at most while it slews.
const maxDrift = 500e-6

// observe takes in that the server has read its clock between two moments of ours.
// Where that does not fit what was known, its clock was set, or it is another server.
func (c *serverClock) observe(server, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high := server, server.Add(received.Sub(sent)+time.Microsecond) // it reads whole ones
	if !c.at.IsZero() {
		oldLow, oldHigh := c.bounds(received)
		if !oldLow.After(high) && !oldHigh.Before(low) {
			low, high = later(low, oldLow), earlier(high, oldHigh)
		}
	}
	c.low, c.high, c.at = low, high, received
}

func (c *serverClock) bounds(now time.Time) (low, high time.Time) {
	passed := now.Sub(c.at)
	drift := time.Duration(float64(passed) * maxDrift)
	return c.low.Add(passed - drift), c.high.Add(passed + drift)
}

// earliest is a time, in microseconds, at or before which the server's clock is not
// now; 0 if nothing is known, which deadline.lua answers with the clock.
func (c *serverClock) earliest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return 0
	}
	low, _ := c.bounds(time.Now())
	return low.UnixMicro()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// serverClocks are the clocks of the servers that a store talks to.
type serverClocks struct {
	mu  sync.Mutex
	all map[string]*serverClock
}

// of returns the clock of the server that holds key.
func (c *serverClocks) of(ctx context.Context, client redis.UniversalClient, key string) *serverClock {
	var addr string // one clock where there is one server at a time
	if node, err := nodeOf(ctx, client, key); err == nil && node != client {
		addr = node.(*redis.Client).Options().Addr
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clock := c.all[addr]
	if clock == nil {
		if c.all == nil {
			c.all = make(map[string]*serverClock)
		}
		clock = new(serverClock)
		c.all[addr] = clock
	}
	return clock
}

// ClockOffset asks every master for its time, and returns by how much the clock that is
// furthest off is ahead of that of this machine. It is wrong by no more than half of the
// time that the call took.
func (s *Store) ClockOffset(ctx context.Context) (furthest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	var mu sync.Mutex
	err = eachMaster(ctx, s.client, func(ctx context.Context, c redis.Cmdable) error {
		sent := time.Now()
		server, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		offset := server.Sub(sent.Add(time.Since(sent) / 2))
		mu.Lock()
		defer mu.Unlock()
		if offset.Abs() > furthest.Abs() {
			furthest = offset
		}
		return nil
	})
	if err != nil {
		return 0, fault("ask Redis for its time", err)
	}
	return furthest, nil
}

// clockOffset estimates Redis's clock from the quickest exchange of late.
type clockOffset struct {
	offset time.Duration // Redis's clock minus ours, in the middle of the exchange
	travel time.Duration // half of how long the exchange took
	local  time.Time     // of ours; its monotonic reading is what counts
	known  bool
}

// offsetAge is after how long a quick exchange gives way to a newer one, since
// clocks drift.
const offsetAge = 10 * time.Second

func (c *clockOffset) observe(redis, sent, received time.Time) {
	travel := received.Sub(sent) / 2
	if c.known && travel > c.travel && received.Sub(c.local) < offsetAge {
		return
	}
	middle := sent.Add(travel)
	*c = clockOffset{offset: redis.Sub(middle), travel: travel, local: middle, known: true}
}

// here is when, by our own clock, Redis's clock was at now: between sent and
// received, and as early as the quickest exchange of late allows. So lateness that
// is counted from there is too long by up to that exchange's time, and not too short.
func (c *clockOffset) here(now, sent, received time.Time) time.Time {
	at := c.local.Add(now.Sub(c.local.Add(c.offset)) - c.travel)
	switch {
	case at.Before(sent):
		return sent
	case at.After(received): // a clock was set
		return received
	}
	return at
}

// leastWait keeps a wait that was just too short from becoming a busy loop.
const leastWait = 20 * time.Microsecond

// until is how long to wait so that a request then sent arrives in Redis at t.
func (c *clockOffset) until(t time.Time) time.Duration {
	now := c.local.Add(time.Since(c.local) + c.offset)
	return max(leastWait, t.Sub(now)-c.travel)
}

// clockRange is in what range Redis's clock minus ours was when it was last found out.
type clockRange struct {
	least, most time.Duration
	known       bool
	origin      time.Time // from which both count; its monotonic reading is what counts
}

// clockStep is a difference that is not just drift or rounding.
const clockStep = 50 * time.Millisecond

// stepped reports whether Redis's clock, read between sent and received, is another
// than before.
func (r *clockRange) stepped(redis, sent, received time.Time) bool {
	if r.origin.IsZero() {
		r.origin = sent
	}
	at := time.Duration(redis.UnixMicro()-r.origin.UnixMicro()) * time.Microsecond
	least, most := at-received.Sub(r.origin), at-sent.Sub(r.origin)
	if r.known && least <= r.most+clockStep && most >= r.least-clockStep {
		return false
	}
	stepped := r.known
	r.least, r.most, r.known = least, most, true
	return stepped
}
