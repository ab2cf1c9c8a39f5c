//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// formatRows are bridges that know different formats of what is stored.
func formatRows() []*row {
	return []*row{{number: 53, name: "format upgrade and rollback", level: "fsync", bridges: 3, set: safeRedis, shape: (*run).someLonger, nemesis: (*run).upgradeAndRollBack,
		fault:    "the bridges are replaced one after the other by those that know a newer format, which is then written; it is pinned to the old one and they are replaced by the old ones; a new one comes back for what waits for it; one is killed with -9",
		expected: "what a bridge can't read waits for one that can, the rest goes out meanwhile; repeats only by the kill", drainIn: 20 * time.Second,
		needs: map[string]int{"written in the old format beside new bridges": 2, "written in the new format": 100, "waited for a new bridge": 20, "met by an old bridge": 1}}}
}

// newBridge is how a command is started that is to know the test format.
var newBridge = []string{"env", "DELAYBRIDGE_TEST_FORMAT=1"}

// waitsFor is the delay of some messages: long enough to outlast the rollback.
const waitsFor = 12 * time.Second

func (r *run) someLonger(p *plan) {
	if p.dice.IntN(10) == 0 {
		p.delay += waitsFor
		p.message.Delay = fmt.Sprintf("%dms", p.delay.Milliseconds())
	}
}

func (r *run) upgradeAndRollBack() {
	order := r.dice.Perm(len(r.bridges))
	for n, at := range order {
		r.replace(r.bridges[at], newBridge)
		if n+1 < len(order) && r.inNewFormat() == 0 {
			r.reached("written in the old format beside new bridges")
		}
	}
	r.awaitFormat(r.bridges[0], 2)
	time.Sleep(r.between(time.Second, 3*time.Second))
	for range r.inNewFormat() {
		r.reached("written in the new format")
	}
	r.storeFormat(r.bridges[0], "--pin", "1")
	r.awaitFormat(r.bridges[0], 1)
	for n, at := range order {
		if n == 1 {
			r.killOne(r.bridges[at])
		}
		r.replace(r.bridges[at], nil)
	}
	for range r.inNewFormat() {
		r.reached("waited for a new bridge")
	}
	r.awaitMet()
	r.replace(r.bridges[order[0]], newBridge)
	r.await("the new format is drained", func() bool { return r.inNewFormat() == 0 })
	r.replace(r.bridges[order[0]], nil)
}

// replace ends a bridge in order and starts it again with a prefix of its command.
func (r *run) replace(b *bridge, prefix []string) {
	if err := b.stop(); err != nil {
		r.find("L9", "%v", err)
	}
	b.prefix = prefix
	b.start("")
}

// inNewFormat counts what is parked in the test format now.
func (r *run) inNewFormat() (n int) {
	for bucket := range 16 {
		records, _ := r.redis.node.MustDo("HVALS", fmt.Sprintf("delaybridge:{out:%02d}:msg", bucket)).([]any)
		for _, record := range records {
			if text, _ := record.(string); text != "" && text[0] == 2 {
				n++
			}
		}
	}
	return n
}

var metNewer = regexp.MustCompile(`records of a newer format are due and wait, because no instance reads them.* format=(\d+)`)

// awaitMet waits for an old bridge to meet what it can't read.
func (r *run) awaitMet() {
	if poll.Holds(waitsFor, func() bool {
		return slices.ContainsFunc(r.bridges, func(b *bridge) bool { return len(b.process.Logs.Find(metNewer)) > 0 })
	}) {
		r.reached("met by an old bridge")
	}
}

const formatIn = 30 * time.Second

func (r *run) await(what string, holds func() bool) {
	if !poll.Holds(formatIn, holds) {
		r.find("L7", "%s: not within %s", what, formatIn)
	}
}

// storedFormats is what `delaybridge store format` prints, as far as needed.
type storedFormats struct {
	Writes    int
	Instances []struct{ Writes int }
}

func (r *run) storeFormat(b *bridge, args ...string) (f storedFormats) {
	out, err := exec.Command(r.binary, append([]string{"store", "format", "--config", b.config, "-o", "json"}, args...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	if err != nil {
		said := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = string(exit.Stderr)
		}
		r.Fatalf("store format: %v\n%s", err, said)
	}
	return f
}

// awaitFormat waits until every bridge writes a format.
func (r *run) awaitFormat(b *bridge, format int) {
	r.await(fmt.Sprintf("all write format %d", format), func() bool {
		f := r.storeFormat(b)
		for _, one := range f.Instances {
			if one.Writes != format {
				return false
			}
		}
		return f.Writes == format
	})
}
