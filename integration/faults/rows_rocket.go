//go:build unix

package main

import (
	"time"
)

// rocketRows are troubles of RocketMQ as the target.
func rocketRows() []*row {
	return []*row{{number: 27, name: "RocketMQ stores less safely", level: "fsync", bridges: 2, set: safeRedis, sink: rocketSinks, shape: (*run).plain,
		nemesis: (*run).troubleRocket, verify: (*run).checkSentAgain,
		fault:    "the broker is started as SYNC_MASTER with no slave, then with a flush to disk that is always too late (both answer with a status, and no error), and killed with -9, in the order of the seed",
		expected: "what is not as safe as configured does not count as delivered and is sent again", perFault: 2000, drainIn: 30 * time.Second,
		needs: map[string]int{noReplica: 2, noFlush: 1, "killed": 1, "attempts over 1": 1}}}
}

const (
	noReplica = "stored without a replica"
	noFlush   = "stored and flushed late"
)

func (r *run) troubleRocket() {
	broker := r.rocket.cluster.Broker()
	r.shuffled(func() {
		r.storeUnsafely(unsafeTime{what: noReplica, each: true}, "brokerRole=SYNC_MASTER")
	}, func() {
		r.storeUnsafely(unsafeTime{what: noFlush}, "flushDiskType=SYNC_FLUSH", "syncFlushTimeout=0")
	}, func() {
		over := r.strike("rocketmq killed")
		r.rocket.restart(broker.Kill)
		over()
		r.reached("killed")
	})
}

// storeUnsafely has the broker store what it is given and say that it is not as
// safe as its settings ask for.
func (r *run) storeUnsafely(u unsafeTime, settings ...string) {
	broker, over := r.rocket.cluster.Broker(), r.strike(u.what)
	r.rocket.restart(func() { broker.Stop(); u.from = time.Now() }, settings...)
	time.Sleep(r.between(4*time.Second, 6*time.Second))
	r.rocket.restart(func() { broker.Stop(); u.to = time.Now() })
	over()
	r.rocket.unsafe = append(r.rocket.unsafe, u)
}

// checkSentAgain finds what was stored unsafely and not sent again.
func (r *run) checkSentAgain() {
	for _, a := range r.ledger.accounts() {
		for _, got := range a.arrivals {
			for _, u := range r.rocket.unsafe {
				switch inside := got.Call.After(u.from) && got.Call.Before(u.to); {
				case !inside:
				case a.arrivedAfter(got):
					r.reached(u.what)
				case u.each && !a.maybeWithdrawn():
					r.find("L1", "%s was %s and not sent again", a.name, u.what)
				}
			}
		}
	}
}

func (a *account) arrivedAfter(one entry) bool {
	for _, other := range a.arrivals {
		if other.Call.After(one.Call) {
			return true
		}
	}
	return false
}
