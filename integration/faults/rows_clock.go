//go:build unix

package main

import (
	"syscall"
	"time"
)

// clockRows have the clock of Redis jump. The scripts of these bridges read a
// clock that is ahead of Redis's by what a key says.
func clockRows() []*row {
	return []*row{{number: 30, name: "Redis's clock jumps", fault: "the clock that decides what is due jumps by -1 h, +1 h and +10 s, in any order, as Redis is killed or a bridge is, and at last beyond all it was",
		expected: "nothing early by that clock; what it has gone back from is due when it comes there again", level: "fsync", bridges: 2, set: jumpingRedis, nemesis: (*run).jumpClock,
		perFault: 200, needs: map[string]int{"jumped": 4, "held": 10, "delivered after a step back": 20}}}
}

func jumpingRedis(r *run) redisSetting {
	r.env = append(r.env, "DELAYBRIDGE_CLOCK_KEY="+clockKey)
	setting := safeRedis(r)
	// Or a jump would make the bridges forget what producers ask for.
	setting.yaml += "\n  dedupe_window: 7d"
	return setting
}

const betweenJumps = 3 * time.Second

func (r *run) jumpClock() {
	steps := []time.Duration{-time.Hour, time.Hour, 10 * time.Second}
	r.dice.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	now, highest := time.Duration(0), time.Duration(0)
	for _, step := range steps {
		now += step
		highest = max(highest, now)
		r.jumpTo(now)
		before := time.Now()
		time.Sleep(betweenJumps)
		if step < 0 {
			r.seen["held"] += r.held(now)
			r.seen["delivered after a step back"] += r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Call.After(before) })
		}
	}
	r.jumpTo(highest + 10*time.Second)
	time.Sleep(betweenJumps)
}

// held counts what has not arrived and is due later than anything can be that was
// sent since the clock went back.
func (r *run) held(ahead time.Duration) int {
	n := 0
	for _, a := range r.ledger.accounts() {
		if a.accepted() && !a.settled() && a.lastDue(0).After(time.Now().Add(ahead+longestDelay)) {
			n++
		}
	}
	return n
}

// jumpTo sets the clock, as Redis has been killed, or a bridge, or nobody.
func (r *run) jumpTo(ahead time.Duration) {
	over := r.strike("clock jumps")
	switch victim := r.bridges[1]; r.dice.IntN(3) {
	case 0:
		r.redis.node.Kill()
		r.redis.node.Start()
		r.setClock(ahead)
	case 1:
		victim.kill()
		r.setClock(ahead)
		victim.start("")
	default:
		victim.signal(syscall.SIGSTOP)
		r.setClock(ahead)
		victim.signal(syscall.SIGCONT)
	}
	over()
	r.reached("jumped")
}
