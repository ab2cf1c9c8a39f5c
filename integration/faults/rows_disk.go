//go:build unix

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// longestUnwritten is of how long a Redis that syncs every second may lose what
// it was told: it holds writes back while a sync takes long.
const longestUnwritten = 3 * time.Second

// diskRows are a slow disk under the append-only file, and one that is cut off.
func diskRows() []*row {
	slow := &row{number: 8, name: "slow disk, Redis killed", fault: "each fdatasync takes up to half a second longer, AOF always, and Redis is killed meanwhile, three times",
		expected: "nothing accepted is lost", level: "fsync", bridges: 2, set: traced(safeRedis), perFault: 200,
		nemesis: func(r *run) { r.slowDisk(100*time.Millisecond, 500*time.Millisecond) }, needs: map[string]int{"redis killed": 3, "slow fdatasync": 6}}
	memory := &row{number: 43, name: "slow disk, Redis killed, level memory", fault: "each fdatasync takes 3 s longer, AOF everysec, and Redis is killed meanwhile, three times",
		expected: fmt.Sprintf("loss, of what was accepted in the last %s before a kill only", longestUnwritten), level: "memory", bridges: 2, set: traced(everySecondRedis),
		perFault: 600, rolledBack: true, split: true, nemesis: (*run).slowDiskEverySecond,
		needs: map[string]int{"redis killed": 3, "lost where it may be": 1}}
	cut := &row{number: 9, name: "power cut", fault: "kill -9 of Redis, AOF always, and the append-only file cut to what its last fdatasync covered, three times",
		expected: "nothing accepted is lost", level: "fsync", bridges: 2, set: traced(safeRedis), perFault: 200,
		nemesis: func(r *run) { r.cutPower(50 * time.Millisecond) }, needs: map[string]int{"power cut": 3, "bytes cut off": 1}}
	cutMemory := &row{number: 44, name: "power cut, level memory", fault: "the same, AOF everysec",
		expected: fmt.Sprintf("loss, of what was accepted in the last %s before a cut only", longestUnwritten), level: "memory", bridges: 2, set: traced(everySecondRedis),
		perFault: 600, rolledBack: true, split: true, nemesis: func(r *run) { r.cutPower(time.Millisecond) },
		needs: map[string]int{"power cut": 3, "bytes cut off": 1, "lost where it may be": 1}}
	cutWaiting := &row{number: 60, name: "power cut, WAITAOF", fault: "the same, AOF everysec, Redis 8.0",
		expected: "nothing accepted is lost", level: "fsync", bridges: 2, set: traced(waitAOFRedis), perFault: 600, rolledBack: true,
		nemesis: func(r *run) { r.cutPower(time.Millisecond) }, needs: map[string]int{"power cut": 3, "bytes cut off": 1}}
	return []*row{slow, memory, cut, cutMemory, cutWaiting}
}

func everySecondRedis(r *run) redisSetting {
	s := servers.Redis(r, servers.RedisOptions{})
	return redisSetting{yaml: fmt.Sprintf(`{url: %q}`, s.URL()), node: s}
}

// waitAOFRedis is one whose level fsync is by WAITAOF.
func waitAOFRedis(r *run) redisSetting {
	s := servers.Redis(r, servers.RedisOptions{Program: servers.Redis80(r)})
	return redisSetting{yaml: fmt.Sprintf(`{url: %q}`, s.URL()), node: s}
}

// slowDisk kills Redis while its disk is slow.
func (r *run) slowDisk(least, most time.Duration) {
	for range 3 {
		over := r.strike("slow disk, redis killed")
		t := r.trace("exit", r.between(least, most))
		time.Sleep(r.between(2*time.Second, 4*time.Second))
		r.killTraced(t)
		over()
		_, times := t.synced()
		r.seen["slow fdatasync"] += times
		time.Sleep(2 * time.Second)
	}
}

// slowDiskEverySecond does so where Redis does not wait for its disk.
func (r *run) slowDiskEverySecond() {
	for range 3 {
		over := r.strike("slow disk, redis killed")
		t := r.trace("exit", longestUnwritten)
		time.Sleep(r.between(3*time.Second, 6*time.Second))
		r.lossEndsNow()
		r.killTraced(t)
		over()
		time.Sleep(2 * time.Second)
	}
}

// lossEndsNow notes that Redis may lose what it was told of late. What is under
// way is answered within a moment, or not at all.
func (r *run) lossEndsNow() {
	if r.row.level == "memory" {
		r.mayLose(time.Now().Add(-longestUnwritten), time.Now().Add(time.Second))
	}
}

func (r *run) killTraced(t *tracer) {
	r.redis.node.Kill()
	t.detach()
	time.Sleep(r.between(100*time.Millisecond, time.Second))
	r.redis.node.Start()
	r.reached("redis killed")
}

// cutPower kills Redis and takes from its file what was not on the disk. A delay
// before each fdatasync makes it likely that there is something.
func (r *run) cutPower(delay time.Duration) {
	for range 3 {
		over := r.strike("power cut")
		t := r.trace("enter", delay)
		time.Sleep(r.between(1500*time.Millisecond, 3*time.Second))
		r.lossEndsNow()
		r.redis.node.Kill()
		t.detach()
		durable, _ := t.synced()
		if sizeOf(t.aof) > durable {
			r.reached("bytes cut off")
		}
		if err := os.Truncate(t.aof, durable); err != nil {
			r.Fatalf("cut the append-only file: %v", err)
		}
		r.redis.node.Start()
		over()
		r.reached("power cut")
		time.Sleep(2 * time.Second)
	}
}
