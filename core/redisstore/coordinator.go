package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// beat has this instance count as alive, or no more if it stops, and asks which
// buckets fall to it. One that is asked for while another is on its way follows
// that, as the answer may be too old.
func (v *sinkServer) beat() {
	switch {
	case v.departed:
	case v.beating:
		v.again = true
	default:
		v.beating, v.again = true, false
		v.queued.beats = append(v.queued.beats, v)
	}
}

// sendBeats sends the heartbeats of several sinks in one round trip to each server.
func (l *loop) sendBeats(ctx context.Context, sinks []*sinkServer) {
	calls := make([]call, len(sinks))
	last := make([]bool, len(sinks))
	for n, v := range sinks {
		v.beatAt, last[n] = time.Now(), v.stopping
		calls[n] = v.beatCall(ctx)
	}
	l.runInBackground(ctx, calls, func(n int) { l.post(func() { sinks[n].beaten(calls[n], last[n]) }) })
}

// beatCall asks for the names of the others, too, if this instance can't read all that
// is stored: it stands aside for those that can.
func (v *sinkServer) beatCall(ctx context.Context) call {
	alive, names := v.leaseTime.Milliseconds(), 0
	if v.formats.behind(v.config.newest) {
		names = 1
	}
	if v.stopping || v.aside && names == 1 {
		alive = 0
	}
	return newCall(ctx, v.scripts.beat, []string{v.keys.live(v.sink), v.keys.plan(v.sink)},
		v.config.Instance, alive, v.keys.buckets, v.keys.memberChannel(v.sink), names)
}

// beaten takes the buckets that fall to this instance, as a heartbeat has told.
func (v *sinkServer) beaten(c call, last bool) {
	reply, err := c.StringSlice()
	v.beating = false
	if last {
		v.departed = true
		return
	}
	if v.heard(err); err == nil && len(reply) > 0 && !v.stopping {
		v.aside = v.formats.readElsewhere(reply[1:])
		v.rebalance(parsePlan(reply[0]))
	}
	if v.again || v.stopping {
		v.beat()
	}
}

// parsePlan reads the numbers of buckets.
func parsePlan(plan string) (numbers []int) {
	for text := range strings.FieldsSeq(plan) {
		if n, err := strconv.Atoi(text); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// rebalance gives back the buckets that fall to others and takes those that
// fall to this instance and are free.
func (v *sinkServer) rebalance(mine []int) {
	v.passed = v.passed || len(v.requested) > 0
	for _, n := range mine {
		if v.leases[n] == nil && !v.requested[n] {
			v.requestLease(n)
		}
	}
	for n, t := range v.leases {
		if !slices.Contains(mine, n) {
			t.cancel(errStopping)
		}
	}
}

// heard notes whether Redis answered a heartbeat. That it answers again is logged
// once, when it does so for all sinks.
func (v *sinkServer) heard(err error) {
	was := v.silent
	v.silent = err != nil
	switch {
	case v.silent && !was:
		v.silentSinks.Add(1)
		v.warn("heartbeat failed", v.sink, "err", err)
	case was && !v.silent:
		if v.silentSinks.Add(-1) == 0 {
			v.config.Log.Info("heartbeat works again")
		}
	}
}

// stopped takes a sink out of what heard counts.
func (v *sinkServer) stopped() {
	if v.silent {
		v.silentSinks.Add(-1)
	}
}
