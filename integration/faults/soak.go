//go:build unix

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	usualSoak  = 30 * time.Minute
	soakFaults = 20 // at least, in a soak that is shorter than so many minutes
)

// soakRows go on for long, to find what grows.
func soakRows() []*row {
	return []*row{{number: 42, name: "soak", fault: "one fault a minute out of those of row 39, at Redis or one of two bridges; the other is measured",
		expected: "memory, goroutines and files of the bridge that lives on, and what is left in Redis, do not grow", level: "fsync", bridges: 2, long: true,
		set: soakRedis, nemesis: (*run).soak, after: (*run).checkEmpty, perFault: 300, drainIn: time.Minute, needs: map[string]int{"mixed": 10, "sampled": 10}}}
}

func soakRedis(r *run) redisSetting {
	r.redis = redisBehindProxy(r)
	r.emptyAt = r.usedMemory()
	return r.redis
}

// soak strikes once a minute, and measures before it strikes again.
func (r *run) soak() {
	lasts := r.soakFor
	if lasts == 0 {
		lasts = usualSoak
	}
	every := min(time.Minute, lasts/soakFaults)
	var samples []vitals
	r.during(lasts, func() {
		next := time.Now().Add(every)
		r.anyFault(r.bridges[1])
		r.proxy.lose(0)
		r.reached("mixed")
		time.Sleep(time.Until(next) - calmFor)
		if v := r.calmVitals(r.bridges[0]); v.pid != 0 {
			samples = append(samples, v)
			r.reached("sampled")
			r.Logf("%s: %d goroutines, %d files, %d kB; Redis %d kB", r.Name(), v.goroutines, v.files, v.rssKB, r.usedMemory()>>10)
		}
	})
	for _, text := range growth(samples) {
		r.find("L9", "%s", text)
	}
}

// calmFor is for how long a bridge is looked at; in that time it is as little
// busy as it comes to be.
const calmFor = 5 * time.Second

// calmVitals is the least of what the process uses in some seconds.
func (r *run) calmVitals(b *bridge) vitals {
	least := b.vitals()
	r.client.CloseIdleConnections()
	r.during(calmFor, func() {
		v := b.vitals()
		least.goroutines, least.files, least.rssKB = min(least.goroutines, v.goroutines), min(least.files, v.files), min(least.rssKB, v.rssKB)
		time.Sleep(calmFor / 10)
	})
	return least
}

// How much more the last third of a soak may use than the first one after the
// warm-up.
const (
	warmUpShare = 0.1
	mostMoreRSS = 8 << 10 // kB; or a tenth
	mostMore    = 0.05    // of goroutines and files
	fewMore     = 10      // of those, as requests come and go
)

// growth tells what of the samples grows: what is usual in the last third is
// compared with the first one after the warm-up.
func growth(samples []vitals) []string {
	samples = samples[int(float64(len(samples))*warmUpShare):]
	third := len(samples) / 3
	if third == 0 {
		return []string{fmt.Sprintf("%d samples tell nothing", len(samples))}
	}
	var grown []string
	compare := func(what string, of func(vitals) int, most func(int) int) {
		was, is := usual(samples[:third], of), usual(samples[len(samples)-third:], of)
		if is > was+most(was) {
			grown = append(grown, fmt.Sprintf("%s grew from %d to %d", what, was, is))
		}
	}
	compare("memory (kB)", func(v vitals) int { return v.rssKB }, func(was int) int { return max(was/10, mostMoreRSS) })
	few := func(was int) int { return max(int(float64(was)*mostMore), fewMore) }
	compare("goroutines", func(v vitals) int { return v.goroutines }, few)
	compare("files", func(v vitals) int { return v.files }, few)
	return grown
}

// usual is the lower quartile: what a busy moment adds is no growth.
func usual(samples []vitals, of func(vitals) int) int {
	all := make([]int, len(samples))
	for n, v := range samples {
		all[n] = of(v)
	}
	slices.Sort(all)
	return all[len(all)/4]
}

// usedMemory is that of Redis, in bytes.
func (r *run) usedMemory() int {
	used, _ := strconv.Atoi(r.info("memory", "used_memory"))
	return used
}

// info is one field of what Redis tells of itself.
func (r *run) info(section, field string) string {
	text, _ := r.redis.node.MustDo("INFO", section).(string)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

const (
	emptyIn      = 3 * time.Minute // ids of what is settled are remembered for 2
	mostMoreUsed = 2 << 20
)

// checkEmpty finds what is left in Redis when everything has been delivered and
// forgotten.
func (r *run) checkEmpty() {
	left := r.leftInRedis()
	for deadline := time.Now().Add(emptyIn); len(left) > 0 && time.Now().Before(deadline); left = r.leftInRedis() {
		time.Sleep(time.Second)
	}
	if len(left) > 0 {
		r.find("L9", "%s after everything was delivered Redis still has %s", emptyIn, strings.Join(left, ", "))
	}
	if used := r.usedMemory(); used > r.emptyAt+mostMoreUsed {
		r.find("L9", "Redis uses %d B when it is empty again, and used %d", used, r.emptyAt)
	}
}

// leftInRedis are the keys that an idle bridge does not need.
func (r *run) leftInRedis() []string {
	keys, _ := r.redis.node.MustDo("KEYS", "*").([]any)
	var left []string
	for _, k := range keys {
		name, _ := k.(string)
		if !strings.HasSuffix(name, ":owner") && !strings.HasSuffix(name, ":live") && !strings.HasSuffix(name, ":plan") && !strings.HasSuffix(name, ":meta") {
			left = append(left, name)
		}
	}
	return left
}
