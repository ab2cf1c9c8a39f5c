package redisstore

import "time"

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
