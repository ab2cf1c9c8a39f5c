//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// redisRows are the faults of a single Redis.
func redisRows() []*row {
	base := func(number int, name, what, expected string, nemesis func(*run), needs map[string]int) *row {
		return &row{number: number, name: name, fault: what, expected: expected, level: "fsync", bridges: 2,
			set: safeRedis, nemesis: nemesis, needs: needs, perFault: 200}
	}
	killed := base(7, "Redis killed", "kill -9 of Redis, AOF always, three times", "503 or unknown while it is down, nothing lost",
		(*run).killRedis, map[string]int{"redis killed": 3})
	paused := base(11, "Redis paused", "SIGSTOP of Redis for 10 s", "accepts have unknown outcome; all goes on by itself",
		(*run).pauseRedis, map[string]int{"unknown": 50})
	full := base(18, "Redis full", "maxmemory below what is used for 4 s, noeviction", "accepts are refused, deliveries go on",
		(*run).fillRedis, map[string]int{"full": 20})
	policy := base(19, "eviction switched on", "maxmemory-policy allkeys-lru while running", "within 10 s not ready and nothing accepted, while deliveries go on; and all is well again after",
		(*run).evictRedis, map[string]int{"unready": 20, "delivered while refusing": 20})
	replies := base(29, "replies of Redis lost", "of 2 % of the replies of Redis the connection ends before they are through",
		"what was done twice is done once", (*run).loseReplies, map[string]int{"replies lost": 20, "unknown": 5})
	replies.set, replies.quick, killed.quick, full.quick = redisBehindProxy, true, true, true
	disk := base(20, "disk full", "the disk under Redis's AOF (always) is full; the server ends; started again with room",
		"nothing is accepted falsely", (*run).fillDisk, map[string]int{"redis ended": 1})
	disk.set = redisOnSmallDisk
	return []*row{killed, paused, full, policy, replies, disk,
		base(10, "Redis restarted", "SHUTDOWN and start of Redis, three times", "scripts are loaded again, nothing lost",
			(*run).restartRedis, map[string]int{"redis restarted": 3}),
	}
}

func (r *run) killRedis() {
	for range 3 {
		r.outage("redis killed", r.redis.node.Kill, r.redis.node.Start, 100*time.Millisecond, 1500*time.Millisecond)
		r.reached("redis killed")
		time.Sleep(2 * time.Second)
	}
}

func (r *run) restartRedis() {
	for range 3 {
		r.outage("redis restarted", r.redis.node.Stop, r.redis.node.Start, 100*time.Millisecond, 1500*time.Millisecond)
		r.reached("redis restarted")
		time.Sleep(2 * time.Second)
	}
}

// What Redis is asked in the first seconds after a pause, in commands for each
// call and delivery, may be so many times what it is asked in calm.
const (
	afterPause = 5 * time.Second
	mostStorm  = 2
)

func (r *run) pauseRedis() {
	time.Sleep(time.Second)
	calm := r.commandsForEach(afterPause)
	over := r.strike("redis paused")
	r.redis.node.Pause()
	time.Sleep(10 * time.Second)
	r.redis.node.Resume()
	over()
	storm := r.commandsForEach(afterPause)
	r.note = fmt.Sprintf("%.0f commands a call or delivery after it, %.0f before", storm, calm)
	if storm > mostStorm*calm {
		r.find("L7", "Redis had %.0f commands for each call and delivery in the %s after the pause, and %.0f before it", storm, afterPause, calm)
	}
	time.Sleep(3 * time.Second)
}

// commandsForEach counts what Redis is asked for some time, for each call that was
// answered and each delivery: after a pause there is more of both, as everything
// is due and sent again at once, which is no storm of the bridge's.
func (r *run) commandsForEach(during time.Duration) float64 {
	began, before := time.Now(), r.commands()
	time.Sleep(during)
	asked, ended := r.commands()-before, time.Now()
	worked := r.ledger.count(func(e entry) bool { return e.Return.After(began) && e.Return.Before(ended) })
	return float64(asked) / float64(max(1, worked))
}

func (r *run) commands() int {
	n, _ := strconv.Atoi(r.info("stats", "total_commands_processed"))
	return n
}

const leastDrained = 20

// fillRedis has Redis refuse writes that need memory, and finds whether what is
// due goes out all the same.
func (r *run) fillRedis() {
	time.Sleep(2 * time.Second)
	over := r.strike("redis full")
	r.redis.node.MustDo("CONFIG", "SET", "maxmemory", strconv.Itoa(r.usedMemory()/2))
	from := time.Now()
	time.Sleep(4 * time.Second)
	drained := r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Call.After(from.Add(500*time.Millisecond)) })
	r.redis.node.MustDo("CONFIG", "SET", "maxmemory", "0")
	over()
	if drained < leastDrained {
		r.find("L7", "only %d messages went out while Redis was full", drained)
	}
	time.Sleep(2 * time.Second)
}

const (
	seenIn   = 10 * time.Second
	evictFor = 3 * time.Second
)

// evictRedis makes Redis unsafe and finds whether the bridges notice by
// themselves: that they refuse what is sent to them, and deliver what they have.
func (r *run) evictRedis() {
	over := r.strike("eviction on")
	r.redis.node.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	time.Sleep(seenIn)
	seen := time.Now()
	if !r.awaitReadiness(http.StatusServiceUnavailable) {
		r.find("L10", "ready %s after allkeys-lru was set", seenIn)
	}
	time.Sleep(evictFor - time.Since(seen))
	accepted := r.ledger.count(func(e entry) bool { return e.Kind == accepting && e.Outcome == done && e.Call.After(seen) })
	r.redis.node.MustDo("CONFIG", "SET", "maxmemory-policy", "noeviction")
	over()
	r.seen["delivered while refusing"] = r.deliveredAfterRefusal()
	if accepted > 0 {
		r.find("L10", "%d messages were accepted later than %s after allkeys-lru was set", accepted, seenIn)
	}
	if !r.awaitReadiness(http.StatusOK) {
		r.find("L7", "not ready %s after noeviction was set again", seenIn)
	}
	time.Sleep(seenIn)
}

// deliveredAfterRefusal counts what arrived since a bridge said that its store
// is of no use.
func (r *run) deliveredAfterRefusal() int {
	var first time.Time
	n := 0
	for _, e := range r.ledger.snapshot() {
		switch {
		case first.IsZero() && e.Outcome == refused && e.Code == "unavailable":
			first = e.Return
		case !first.IsZero() && e.Kind == arriving && e.Call.After(first):
			n++
		}
	}
	return n
}

// awaitReadiness tells whether all bridges answered so in time.
func (r *run) awaitReadiness(want int) bool {
	return poll.Holds(seenIn, func() bool {
		return !slices.ContainsFunc(r.bridges, func(b *bridge) bool {
			status, _, err := r.request(b, http.MethodGet, "/readyz", nil)
			return err != nil || status != want
		})
	})
}

func redisBehindProxy(r *run) redisSetting {
	s := servers.Redis(r, servers.RedisOptions{AOF: servers.AOFAlways})
	r.proxy = r.startProxy(s.Addr())
	return redisSetting{yaml: fmt.Sprintf(`{url: "redis://%s/0"}`, r.proxy.addr()), node: s}
}

const shareLost = 0.02

func (r *run) loseReplies() {
	over := r.strike("replies lost")
	r.proxy.lose(shareLost)
	time.Sleep(span)
	r.proxy.lose(0)
	over()
	r.seen["replies lost"] = r.proxy.lostSoFar()
	time.Sleep(time.Second)
}

const smallDisk = "4m"

func redisOnSmallDisk(r *run) redisSetting {
	dir := r.TempDir()
	if err := mountSmallDisk(dir, smallDisk); err != nil {
		r.Skipf("no small disk can be mounted here: %v", err)
	}
	r.disk = dir
	r.Cleanup(func() { unmount(dir) })
	s := servers.Redis(r, servers.RedisOptions{AOF: servers.AOFAlways, Args: []string{"--dir", dir}})
	return redisSetting{yaml: fmt.Sprintf(`{url: %q}`, s.URL()), node: s}
}

func (r *run) fillDisk() {
	filler := filepath.Join(r.disk, "filler")
	over := r.strike("disk full")
	file, err := os.Create(filler)
	if err != nil {
		r.Fatalf("%v", err)
	}
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	file.Close()
	for range 100 {
		if _, err := r.redis.node.Do("PING"); err != nil {
			r.reached("redis ended")
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	r.remove(filler)
	r.redis.node.Kill() // what is left of it
	r.redis.node.Start()
	over()
	time.Sleep(3 * time.Second)
}
