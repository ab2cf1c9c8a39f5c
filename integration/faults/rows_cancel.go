//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"
)

// cancelRows are loads of which next to nothing is delivered.
func cancelRows() []*row {
	return []*row{{number: 49, name: "cancel-heavy", fault: "95 % of the load is cancelled or rescheduled before it is due, with a dedupe window of 1 s, and Redis is killed once",
		expected: "what is remembered is what was settled of late, and nothing else is left behind", level: "fsync", bridges: 2, rate: 300, forgets: true, guard: "30s",
		set: redisThatForgets, shape: (*run).withdraw, nemesis: (*run).watchRemembered, after: (*run).checkForgotten,
		perFault: 200, needs: map[string]int{"redis killed": 1, "cancelled": 2000, "samples": 20}}}
}

const (
	shortWindow = time.Second
	// remembered is for how long an id may be, at most: the window, or as long as a
	// call that was sent before it was settled may arrive.
	remembered = givenUp
	// mayRemain is how many more ids each bucket may remember.
	mayRemain = 10
)

func redisThatForgets(r *run) redisSetting {
	setting := safeRedis(r)
	setting.yaml += "\n  dedupe_window: " + shortWindow.String()
	return setting
}

// withdraw has most messages of one key, whose bucket so has next to no deliveries,
// cancelled, some of them after they were rescheduled.
func (r *run) withdraw(p *plan) {
	p.generated, p.again, p.other, p.lone, p.steps = false, false, false, true, nil
	p.message.ID = p.name
	choice, key, kept := p.dice.IntN(20), "withdrawn", "kept" // whose buckets are not the same
	p.message.Key = &kept
	if choice == 0 {
		return
	}
	p.delay = 2 * longestDelay // of all, so that none is the first that is due, which would wake its owner
	p.message.Delay = fmt.Sprintf("%dms", p.delay.Milliseconds())
	if choice < 4 {
		p.steps = append(p.steps, planned{rescheduling, drawn(p.dice, shortWindow), p.delay})
	}
	if choice > 2 {
		p.message.Key = &key
		p.steps = append(p.steps, planned{cancelling, drawn(p.dice, shortWindow), 0})
	}
}

// watchRemembered compares what Redis remembers with what was settled of late.
func (r *run) watchRemembered() {
	r.emptyAt = r.usedMemory()
	began := time.Now()
	r.during(2*span, func() {
		time.Sleep(500 * time.Millisecond)
		r.checkRemembered()
		if r.seen["redis killed"] == 0 && time.Since(began) > span/2 {
			r.outage("redis killed", r.redis.node.Kill, r.redis.node.Start, 100*time.Millisecond, time.Second)
			r.reached("redis killed")
		}
	})
}

func (r *run) checkRemembered() {
	since := time.Now().Add(-remembered)
	keys, is := r.keysOf(":done"), 0
	for _, key := range keys {
		n, _ := r.redis.node.MustDo("ZCARD", key).(int64)
		is += int(n)
	}
	settled := r.ledger.count(func(e entry) bool {
		return e.Return.After(since) && (e.Kind == arriving || e.Kind == cancelling && e.Outcome != refused)
	})
	r.reached("samples")
	r.seen["remembered"] = max(r.seen["remembered"], is)
	if most := settled + mayRemain*len(keys); is > most {
		r.find("L9", "Redis remembers %d ids, and %d were settled in the last %s", is, settled, remembered)
	}
}

// checkForgotten finds what is left behind when everything is settled.
func (r *run) checkForgotten() {
	time.Sleep(remembered)
	for _, kind := range []string{":msg", ":attempts", ":dead"} {
		if left := r.keysOf(kind); len(left) > 0 {
			r.find("L9", "after everything was settled Redis still has %s", strings.Join(left, ", "))
		}
	}
	r.note = fmt.Sprintf("at most %d of %d settled ids were remembered", r.seen["remembered"], count(r.ledger).cancelled+count(r.ledger).arrived)
	if used := r.usedMemory(); used > r.emptyAt+mostMoreUsed {
		r.find("L9", "Redis uses %d B when everything is settled, and used %d", used, r.emptyAt)
	}
}

// keysOf are the keys of all buckets whose names end so.
func (r *run) keysOf(end string) []string {
	found, _ := r.redis.node.MustDo("KEYS", "*"+end).([]any)
	var names []string
	for _, k := range found {
		names = append(names, fmt.Sprint(k))
	}
	return names
}
