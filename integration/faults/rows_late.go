//go:build unix

package main

import (
	"path/filepath"
	"time"
)

// lateRows hold up calls on their way to Redis, longer than the bridge waits for
// an answer. What it has given up may come through, and must do nothing then.
func lateRows() []*row {
	requests := &row{number: 47, name: "late requests", fault: "accepts, cancels and reschedules come to Redis 0.1 to 10 s late and out of order, and later takes and settles too; producers repeat what is unknown, or ask for something else",
		expected: "what was answered as unknown has no effect after that", level: "fsync", bridges: 3, set: redisBehindLateProxy, shape: (*run).insist, nemesis: (*run).lateRequests,
		needs: map[string]int{"park came late": 3, "cancel came late": 2, "reschedule came late": 2, "settle came late": 1, "take came late": 1, "unknown": 20}}
	lease := &row{number: 48, name: "late lease calls", fault: "own, release and heartbeats come to Redis 0.1 to 10 s late and out of order, while takes fail and bridges are restarted, and later renewals too",
		expected: "repeats by renewals that were late only", level: "fsync", bridges: 2, set: redisBehindLateProxy, nemesis: (*run).lateLeaseCalls,
		perFault: 200, drainIn: 20 * time.Second, needs: map[string]int{"own came late": 2, "release came late": 1, "beat came late": 2, "renew came late": 2, "restarted": 4}}
	dead := &row{number: 54, name: "late redrives and discards", fault: "dead letters are redriven and discarded, and those calls, accepts too, come to Redis 0.1 to 10 s late and out of order; producers repeat what is unknown, ask for the other, or leave it",
		expected: "what was answered as unknown has no effect after that; what was discarded never arrives", level: "fsync", bridges: 3, set: redisBehindLateProxy, sink: sinkThatRefuses, shape: (*run).revive, nemesis: (*run).lateRevivals, verify: (*run).countRevived,
		needs: map[string]int{"redrive came late": 3, "discard came late": 3, "redriven": 50, "discarded": 50, "unknown": 20, "dead": 10,
			"redriven and delivered": 20, "died again": 10, "redriven by a generated id": 10, "discarded by a generated id": 10, "accepted again": 5, "left alone": 1}}
	for _, w := range []*row{requests, lease, dead} {
		w.voidLate = true
	}
	return []*row{requests, lease, dead}
}

// lateCalls are the scripts whose calls may be held up.
var lateCalls = []string{"park", "cancel", "reschedule", "redrive", "discard", "take", "settle", "own", "renew", "release", "beat"}

func redisBehindLateProxy(r *run) redisSetting {
	setting := redisBehindProxy(r)
	root, err := moduleRoot()
	if err != nil {
		r.Fatalf("%v", err)
	}
	if err := r.proxy.beLate().learn(filepath.Join(root, "core", "redisstore", "lua"), lateCalls...); err != nil {
		r.Fatalf("%v", err)
	}
	return setting
}

// insist has producers that change their mind, that ask for something else when
// they don't know what came of it, and some that withdraw what they don't know to be
// accepted: an id that is remembered would keep a late accept from being stored.
func (r *run) insist(p *plan) {
	p.generated, p.withdraws = p.dice.IntN(4) == 0, p.dice.IntN(3) == 0
	p.unsure = func(s planned) planned { return planned{rescheduling, 0, longestDelay + s.delay} }
	p.again, p.other = p.again && !p.generated, p.other && !p.generated
	if p.steps = nil; p.generated {
		p.message.ID = ""
	} else {
		p.message.ID = p.name
	}
	for _, kind := range []kind{rescheduling, cancelling, looking} {
		if p.dice.IntN(3) == 0 {
			p.steps = append(p.steps, planned{kind, drawn(p.dice, longestFollow/3), drawn(p.dice, longestDelay)})
		}
	}
}

// lateRequests has calls of producers late, which is no reason to repeat anything,
// and then those of deliveries as well, which is.
func (r *run) lateRequests() {
	calls := map[string]float64{"park": 0.05, "cancel": 0.1, "reschedule": 0.1, "redrive": 0.1, "discard": 0.1}
	over := r.strikeClean("late requests")
	r.proxy.late.hold(calls)
	time.Sleep(span)
	over()
	over = r.strike("late takes and settles")
	calls["take"], calls["settle"] = 0.02, 0.02
	r.proxy.late.hold(calls)
	time.Sleep(span / 2)
	r.awaitLate()
	over()
}

// awaitLate lets all through that is held up.
func (r *run) awaitLate() {
	r.proxy.late.hold(nil)
	for r.proxy.late.underWay() > 0 {
		time.Sleep(50 * time.Millisecond)
	}
	for name, n := range r.proxy.late.late() {
		r.seen[name+" came late"] = n
	}
}

// lateLeaseCalls has calls about lease late. Takes that fail make a bridge own a
// bucket again that it owns, and restarts have buckets change hands.
func (r *run) lateLeaseCalls() {
	fails := r.TempDir() + "/fails"
	failpoints := slowed + "100ms,take.after:1+:error@" + fails
	r.restartAll(failpoints)
	time.Sleep(lease) // until the buckets are shared
	quiet := r.strikeClean("late lease requests")
	r.proxy.late.hold(map[string]float64{"own": 0.5})
	r.during(span, func() {
		r.touch(fails)
		time.Sleep(100 * time.Millisecond)
		r.remove(fails)
		time.Sleep(time.Second)
	})
	r.awaitLate()
	r.proxy.late.hold(map[string]float64{"own": 0.05, "release": 0.2, "beat": 0.2})
	for _, b := range r.bridges {
		r.restart(b, failpoints)
		time.Sleep(r.between(time.Second, 2*time.Second))
	}
	r.awaitLate()
	quiet()
	over := r.strike("late renewals")
	r.proxy.late.hold(map[string]float64{"own": 0.05, "release": 0.1, "beat": 0.1, "renew": 0.4})
	time.Sleep(span / 2)
	r.awaitLate()
	over()
}
