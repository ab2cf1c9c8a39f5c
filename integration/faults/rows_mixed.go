//go:build unix

package main

import (
	"fmt"
	"time"
)

// mixedRows are many faults in one run.
func mixedRows() []*row {
	return []*row{{number: 39, name: "everything at once", fault: "kills, pauses, failpoints, a Redis that is killed, paused, full, and replies that are lost, by the seed",
		expected: "all of the above", level: "fsync", bridges: 3, quick: true, set: redisBehindProxy, nemesis: (*run).everything,
		perFault: 300, needs: map[string]int{"mixed": 4}}}
}

func (r *run) everything() {
	r.proxy.lose(0.002)
	over := r.strike("few replies lost")
	r.during(2*span, func() {
		r.anyFault(r.bridges[1+r.dice.IntN(2)])
		r.reached("mixed")
		time.Sleep(r.between(0, time.Second))
	})
	r.proxy.lose(0)
	over()
}

// anyFault does one of the faults of the other rows.
func (r *run) anyFault(b *bridge) {
	switch node := r.redis.node; r.dice.IntN(7) {
	case 0:
		r.outage("redis killed", node.Kill, node.Start, 0, time.Second)
	case 1:
		r.outage("redis paused", node.Pause, node.Resume, 500*time.Millisecond, 4*time.Second)
	case 2:
		over := r.strike("redis full")
		node.MustDo("CONFIG", "SET", "maxmemory", "1mb")
		time.Sleep(r.between(200*time.Millisecond, 2*time.Second))
		node.MustDo("CONFIG", "SET", "maxmemory", "0")
		over()
	case 3:
		r.pause(b, r.between(time.Second, longPause))
	case 4:
		over := r.strike("many replies lost")
		r.proxy.lose(3 * shareLost)
		time.Sleep(r.between(500*time.Millisecond, 2*time.Second))
		r.proxy.lose(0.002)
		over()
	default:
		points := []string{"park.before", "park.after", "take.after", "deliver.before", "deliver.after", "settle.before", "settle.after", "own.before"}
		r.failAt(b, fmt.Sprintf("%s:%d:kill", points[r.dice.IntN(len(points))], 1+r.dice.IntN(12)))
	}
}
