//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// halfOpenRows cut one of two bridges off from Redis without a word to either.
func halfOpenRows() []*row {
	return []*row{{number: 23, name: "half-open connections", fault: "the link between one bridge and Redis is down for 12 s, longer than any call waits, without a word to either side",
		expected: "the other bridge goes on; the one that was cut off is back within 30 s", level: "fsync", bridges: 0, set: halfOpenRedis, nemesis: (*run).cutLink,
		perFault: 200, drainIn: 40 * time.Second, needs: map[string]int{"unknown": 1, "unready": 10, "accepts again": 1, "delivers again": 1}}}
}

// halfOpenRedis has Redis and a bridge on one side, and a bridge on the other.
func halfOpenRedis(r *run) redisSetting {
	r.sides = r.makeSides()
	left := r.sides[0]
	left.redis("")
	left.await("AOF always", splitRedisPort, "OK", left, "CONFIG", "SET", "appendfsync", "always")
	setting := redisSetting{yaml: fmt.Sprintf(`{url: "redis://%s:%d/0"}`, left.host, splitRedisPort)}
	r.addBridgesOnSides(setting.yaml)
	return setting
}

const (
	linkDownFor   = 12 * time.Second
	reconnectedIn = 30 * time.Second
)

func (r *run) cutLink() {
	left, cut := r.sides[0], r.bridges[1]
	over := r.strike("link down", cut)
	r.must("ip", "-n", left.name, "link", "set", "cut", "down")
	time.Sleep(linkDownFor)
	r.must("ip", "-n", left.name, "link", "set", "cut", "up")
	over()
	up := time.Now()
	for _, again := range []struct {
		state string
		holds func(entry) bool
	}{
		{"accepts again", func(e entry) bool { return e.Kind == accepting && (e.Outcome == done || e.Outcome == duplicate) }},
		{"delivers again", func(e entry) bool { return e.Kind == arriving }},
	} {
		took := r.awaitEntry(up, func(e entry) bool { return e.Bridge == cut.incarnation() && again.holds(e) })
		if took > reconnectedIn {
			r.find("L7", "not within %s after the link was up: bridge %s %s", reconnectedIn, cut.name, again.state)
			continue
		}
		r.reached(again.state)
		r.Logf("%s: bridge %s %s %s after the link was up", r.Name(), cut.name, again.state, took.Round(time.Millisecond))
	}
	r.checkGaps(longestGap)
	time.Sleep(2 * time.Second)
}

// awaitEntry tells how long it took until the ledger had such an entry that
// began later than since; more than reconnectedIn if it did not come.
func (r *run) awaitEntry(since time.Time, holds func(entry) bool) time.Duration {
	if poll.Holds(time.Until(since.Add(reconnectedIn)), func() bool {
		return r.ledger.count(func(e entry) bool { return e.Call.After(since) && holds(e) }) > 0
	}) {
		return time.Since(since)
	}
	return reconnectedIn + 1
}
