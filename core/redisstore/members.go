package redisstore

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"
)

// beat says that this instance is alive, and asks who else is. One that is asked
// for while another is on its way follows that, as the answer may be too old.
func (v *server) beat(ctx context.Context) {
	if v.beating || v.stopping {
		v.again = true
		return
	}
	v.beating, v.again = true, false
	c := v.beatCall(ctx, v.term)
	v.runBeside(ctx, []call{c}, func(int) { v.beats <- c })
}

// beatCall has this instance count as alive for a while from now, or no more. It
// answers with the instances that serve the sink.
func (v *server) beatCall(ctx context.Context, alive time.Duration) call {
	return newCall(ctx, v.scripts.beat, []string{v.keys.members(v.sink)}, v.config.Instance, alive.Milliseconds())
}

// beaten takes the buckets that fall to this instance, now that a heartbeat has told
// which are alive.
func (v *server) beaten(ctx context.Context, c call) {
	live, err := c.StringSlice()
	v.beating = false
	switch {
	case v.stopping:
		v.depart(ctx)
		return
	case err != nil && !v.silent:
		v.log.Warn("heartbeat failed", "err", err)
	case err == nil && v.silent:
		v.log.Info("heartbeat is back")
	}
	v.silent = err != nil
	if !v.silent {
		v.introduce(ctx)
		v.rebalance(ctx, live)
	}
	if v.again {
		v.beat(ctx)
	}
}

// introduce tells the others of this instance, once they can see that it is alive.
func (v *server) introduce(ctx context.Context) {
	if !v.known {
		v.known = true
		v.beside.Go(func() { v.announce(ctx) })
	}
}

// rebalance gives back the buckets that fall to others and takes those that
// fall to this instance and are free.
func (v *server) rebalance(ctx context.Context, live []string) {
	var wanted []int
	for n := range v.keys.buckets {
		mine := rendezvous(live, v.sink, n) == v.config.Instance
		t := v.tenures[n]
		switch {
		case v.claimed[n]:
			v.passed = true
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

// announce tells the other instances that there is something to take or give. It
// asks one server to pass that on, that of the heartbeats: as a command to a whole
// cluster, the client library would first have some server list its commands, for
// 5 s whatever ctx says.
func (v *server) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, v.config.timeout)
	defer cancel()
	node, err := nodeOf(ctx, v.keeping, v.keys.members(v.sink))
	if err == nil {
		err = node.Publish(ctx, v.keys.memberChannel(v.sink), v.config.Instance).Err()
	}
	if err != nil {
		v.log.Debug("announce", "err", err) // the others' heartbeats find out as well
	}
}

// depart takes this instance out of the set of those that serve the sink, so
// that its buckets fall to others from now on.
func (v *server) depart(ctx context.Context) {
	v.beside.Go(func() {
		v.Store.run(ctx, v.keeping, v.beatCall(ctx, 0))
		v.announce(ctx)
	})
}
