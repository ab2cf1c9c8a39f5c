//go:build unix

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// reloadRows change the configuration of bridges while they run.
func reloadRows() []*row {
	return []*row{{number: 61, name: "reload in bursts", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaBothWays,
		shape: (*run).asBursts, enter: (*run).enterBothWays, nemesis: (*run).reloadInBursts, verify: (*run).checkReloads, rate: 300,
		fault:    "in the middle of bursts, bridges are reloaded by SIGHUP: their sink is changed, or its retries, or their source is added or removed, in the order of the seed",
		expected: "each message once, at its first attempt and in time", perFault: 1, drainIn: 30 * time.Second,
		needs: map[string]int{"sink changed": 4, "retry changed": 3, "source removed": 2, "source added": 2}}}
}

// kafkaBothWays has the bridges read from a Kafka and deliver to it.
func kafkaBothWays(r *run) string {
	sinks := kafkaSinks(r)
	r.kafka.cluster.CreateTopic(sourceTopic, 2*kafkaPartitions)
	r.more = r.kafka.sources(sourceSuffix)
	return sinks
}

const (
	burstEvery = 2 * time.Second
	inBurst    = 300 * time.Millisecond
)

// asBursts has messages fall due together, and a part of them come through Kafka.
func (r *run) asBursts(p *plan) {
	r.plain(p)
	if p.generated {
		r.asRecord(p)
	}
	p.delay = time.Until(time.Now().Add(burstEvery).Truncate(burstEvery)).Truncate(time.Millisecond)
	p.message.Delay = fmt.Sprintf("%dms", p.delay.Milliseconds())
}

func (r *run) enterBothWays(p plan) entry {
	if p.generated {
		return r.produce(p)
	}
	return r.accept(r.anyBridge(p.dice), p.name, p.message, p.delay)
}

// reloadInBursts makes one change in each burst.
func (r *run) reloadInBursts() {
	r.restartAll(slowed + "50ms")
	began := time.Now()
	base := r.configuration(r.redis.yaml, "")
	client, retry, source := "", "", r.more
	changes := []func(n int){}
	for range 4 {
		changes = append(changes, func(n int) {
			client = fmt.Sprintf("client_id: reload%d, ", n)
			r.reached("sink changed")
		}, func(int) {
			if source == "" {
				source = r.more
				r.reached("source added")
				return
			}
			source = ""
			r.reached("source removed")
		})
	}
	for range 3 {
		changes = append(changes, func(n int) {
			retry = fmt.Sprintf("retry: {initial: %dms}, ", 200+n)
			r.reached("retry changed")
		})
	}
	r.dice.Shuffle(len(changes), func(a, b int) { changes[a], changes[b] = changes[b], changes[a] })
	for n, change := range changes {
		time.Sleep(time.Until(time.Now().Add(burstEvery).Truncate(burstEvery)) + r.between(0, inBurst))
		change(n + 1)
		text := strings.Replace(base, "config: {brokers", "config: {"+client+"brokers", 1)
		text = strings.Replace(text, "timeout: 3s, ", "timeout: 3s, "+retry, 1)
		r.reload(strings.Replace(text, r.more, source, 1))
	}
	r.reload(base)
	r.checkInTime(began, time.Now().Add(-inTime), func(entry) bool { return true })
}

const reloadedIn = 20 * time.Second

var reloadedLine = regexp.MustCompile(`msg="configuration (reloaded|read again)`)

// reload has all bridges read a configuration at the same time.
func (r *run) reload(text string) {
	over := r.strikeClean("reload")
	defer over()
	before := make([]int, len(r.bridges))
	for n, b := range r.bridges {
		before[n] = len(b.process.Logs.Find(reloadedLine))
		r.harmIf(os.WriteFile(b.config, []byte(text), 0o600))
		b.signal(syscall.SIGHUP)
	}
	for n, b := range r.bridges {
		if !poll.Holds(reloadedIn, func() bool { return len(b.process.Logs.Find(reloadedLine)) > before[n] }) {
			r.find("L9", "bridge %s has not reloaded within %s:\n%s", b.name, reloadedIn, b.process.Logs.Tail())
		}
	}
}

var hasNotStopped = regexp.MustCompile(`msg="?reload"? (err=[^\n]*)`)

// checkReloads finds attempts that were spent, and what did not stop.
func (r *run) checkReloads() {
	for _, b := range r.bridges {
		if left := b.process.Logs.Find(hasNotStopped); len(left) > 0 {
			r.find("L9", "bridge %s: %s", b.name, left[0])
		}
	}
	if spent := r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Attempt > 1 }); spent > 0 {
		r.find("L6", "%d messages did not arrive by their first attempt", spent)
	}
}
