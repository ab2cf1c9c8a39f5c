//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// bridgeRows are the faults of the bridge's own processes.
func bridgeRows() []*row {
	kills := func(number int, name, what, expected string, takeOvers int, points ...string) *row {
		return &row{number: number, name: name, fault: what, expected: expected, level: "fsync", bridges: 2, quick: true,
			set: safeRedis, nemesis: func(r *run) { r.killAt(points) },
			needs: map[string]int{"failpoint": 3, "attempts over 1": takeOvers, "duplicate": 5, "conflict": 5, "cancelled": 10}}
	}
	return []*row{
		{number: 0, name: "calm", fault: "none", expected: "each message once", level: "fsync", bridges: 2, quick: true,
			set: safeRedis, nemesis: func(r *run) { time.Sleep(span / 2) }, needs: map[string]int{"duplicate": 5, "conflict": 5, "cancelled": 10, "too late": 3}},
		kills(1, "killed in accept", "kill -9 of a bridge before and after park and cancel", "unknown to the producer, who repeats it", 0,
			"park.before", "park.after", "cancel.before", "cancel.after"),
		kills(2, "killed before the send", "kill -9 after take, before deliver", "another owner sends it", 1, "take.before", "take.after", "deliver.before"),
		kills(3, "killed before the settle", "kill -9 between the sink's confirm and settle", "one repeat, which says attempt 2", 1, "deliver.after", "settle.before"),
		kills(4, "killed in settle and hand-over", "kill -9 after settle, and at both ends of the work on a bucket", "nothing is stuck", 0,
			"settle.after", "own.before", "own.after"),
		{number: 5, name: "paused", fault: "SIGSTOP for 3 times the lease, anywhere and at each step, then SIGCONT", expected: "others take over, and what wakes does nothing",
			level: "fsync", bridges: 2, quick: true, set: safeRedis, nemesis: (*run).pauseAt, needs: map[string]int{"stopped": 2, "attempts over 1": 1}},
		{number: 6, name: "two of three killed", fault: "kill -9 of two of three bridges in turn, every 2 s", expected: "deliveries go on",
			level: "fsync", bridges: 3, quick: true, set: safeRedis, nemesis: (*run).killInTurn, needs: map[string]int{"killed": 4}},
		{number: 21, name: "sink down", fault: "every delivery fails for 4 s, then is done but called unknown for 2 s, then not done and called unknown", expected: "messages stay parked, no dead letters",
			level: "fsync", bridges: 2, quick: true, set: safeRedis, nemesis: (*run).failSink, perFault: 200, needs: map[string]int{"attempts over 1": 3}},
		{number: 22, name: "sink slow", fault: "every delivery takes 400 ms", expected: "each message once; what is in flight can't be cancelled", level: "fsync", bridges: 2, quick: true,
			set: safeRedis, nemesis: (*run).slowSink, needs: map[string]int{"too late": 20, "cancelled": 20}},
		{number: 40, name: "rolling restart", fault: "each bridge in turn is interrupted as by an operator and started again, with a slow sink", expected: "each message once, and buckets change hands at once",
			level: "fsync", bridges: 3, quick: true, set: safeRedis, nemesis: (*run).restartInTurn, needs: map[string]int{"restarted": 4}},
		{number: 34, name: "two bridges of one name", leftOut: "the name of an instance is made of host, process and random characters; it can't be configured"},
	}
}

// safeRedis is one server that keeps what it says it has.
func safeRedis(r *run) redisSetting {
	s := servers.Redis(r, servers.RedisOptions{AOF: servers.AOFAlways})
	return redisSetting{yaml: fmt.Sprintf(`{url: %q}`, s.URL()), node: s}
}

// killAt kills the last bridge at each point in turn, after some hits of it.
func (r *run) killAt(points []string) {
	victim, n := r.bridges[len(r.bridges)-1], r.dice.IntN(len(points))
	r.during(span, func() {
		point := points[n%len(points)]
		n++
		hit := 1 + r.dice.IntN(12)
		if point == "own.after" { // comes when a bucket is handed over
			r.killInHandover(victim)
			return
		}
		r.failAt(victim, fmt.Sprintf("%s:%d:kill", point, hit))
	})
}

func (r *run) killInHandover(b *bridge) {
	over := r.strike("kill in hand-over", b)
	b.kill()
	over()
	b.start(fmt.Sprintf("own.after:%d:kill", 1+r.dice.IntN(4)))
	time.Sleep(r.between(300*time.Millisecond, time.Second))
	over = r.strike("kill in hand-over", b)
	b.away()
	b.signal(syscall.SIGINT)
	if b.awaitEnd(5 * time.Second) {
		r.reached("failpoint")
	} else {
		b.kill()
	}
	over()
	b.start("")
}

const longPause = 3 * lease

// pauseAt stops a bridge wherever it is, and then by failpoints at the steps that
// matter most.
func (r *run) pauseAt() {
	victim := r.bridges[len(r.bridges)-1]
	r.pause(victim, longPause)
	r.reached("stopped")
	points := []string{"take.after", "deliver.before", "deliver.after", "settle.before"}
	first := r.dice.IntN(len(points))
	for n := range 2 {
		point := points[(first+2*n)%len(points)]
		r.stopAt(victim, fmt.Sprintf("%s:%d:stop", point, 2+r.dice.IntN(10)))
	}
}

func (r *run) stopAt(b *bridge, failpoint string) {
	r.crash(b)
	b.start(failpoint)
	stopped := b.awaitStopped(4 * time.Second)
	over := r.strike(failpoint, b)
	if stopped {
		r.reached("stopped")
		time.Sleep(longPause)
		b.signal(syscall.SIGCONT)
	}
	over()
}

const longestGap = 5 * time.Second

func (r *run) killInTurn() {
	n := 0
	r.during(span, func() {
		b := r.bridges[1+n%2]
		n++
		r.crash(b)
		r.reached("killed")
		time.Sleep(r.between(200*time.Millisecond, time.Second))
		b.start("")
		time.Sleep(r.between(500*time.Millisecond, time.Second))
	})
	r.checkGaps(longestGap)
}

// checkGaps finds when nothing arrived for too long.
func (r *run) checkGaps(most time.Duration) {
	var last time.Time
	for _, e := range r.ledger.snapshot() {
		if e.Kind != arriving {
			continue
		}
		if !last.IsZero() && e.Call.Sub(last) > most {
			r.find("L7", "nothing arrived for %s", e.Call.Sub(last))
		}
		last = latest(last, e.Call)
	}
}

// failSink has each bridge's sink fail while a file is there.
func (r *run) failSink() {
	down, lost, silent := r.TempDir()+"/down", r.TempDir()+"/lost", r.TempDir()+"/silent"
	for _, b := range r.bridges {
		r.crash(b)
		b.start("deliver.before:1+:error@" + down + ",deliver.after:1+:error@" + lost + ",deliver.before:1+:unknown@" + silent)
	}
	for _, trouble := range []struct {
		what, file string
		lasts      time.Duration
	}{{"sink down", down, 4 * time.Second}, {"replies of the sink lost", lost, 2 * time.Second}, {"sink silent", silent, 2 * time.Second}} {
		over := r.strike(trouble.what)
		r.touch(trouble.file)
		time.Sleep(trouble.lasts)
		r.remove(trouble.file)
		over()
		time.Sleep(time.Second)
	}
}

// slowed is a failpoint that has messages in flight for long.
const slowed = "deliver.before:1+:sleep:"

func (r *run) slowSink() {
	r.restartAll(slowed + "400ms")
	time.Sleep(span)
}

// restartAll restarts all bridges in order, without a fault.
func (r *run) restartAll(failpoint string) {
	for _, b := range r.bridges {
		r.restart(b, failpoint)
	}
}

func (r *run) restart(b *bridge, failpoint string) {
	if err := b.stop(); err != nil {
		r.find("L9", "%v", err)
	}
	b.start(failpoint)
	r.reached("restarted")
}

// handedOverIn is within which a bucket of a bridge that stops is served by
// another. It is well below the lease, for which it would wait otherwise.
const (
	handedOverIn = lease / 2
	mayBeLate    = 0.03 // of the messages: the machine may be busy
)

func (r *run) restartInTurn() {
	r.restartAll(slowed + "50ms")
	began := time.Now()
	r.during(span, func() {
		r.restart(r.bridges[r.dice.IntN(len(r.bridges))], slowed+"50ms")
		time.Sleep(r.between(200*time.Millisecond, 800*time.Millisecond))
	})
	late, all := r.ledger.late(handedOverIn, func(e entry) bool { return e.Due.After(began) })
	if float64(late) > mayBeLate*float64(all) {
		r.find("L7", "%d of %d messages were more than %s late, though every bridge handed its buckets over", late, all, handedOverIn)
	}
}
