//go:build unix

package main

import (
	"os"
	"strings"
	"time"
)

// otherSink is the sink that row 35 takes away, and the topic of its messages.
const otherSink = "other"

// removedRows are configurations that change from one start to the next: there
// is no reload.
func removedRows() []*row {
	return []*row{{number: 35, name: "sink removed", level: "fsync", bridges: 2, set: safeRedis, sink: twoConsoles, shape: (*run).forTwoSinks, nemesis: (*run).removeSink,
		fault:    "the bridges are restarted one after the other with a configuration that lacks one of two sinks, and later with it again",
		expected: "its messages stay parked and go out when it is back; those of the other sink go on", drainIn: 20 * time.Second,
		needs: map[string]int{"restarted": 4, "parked meanwhile": 20, "refused": 20}}}
}

const otherConsole = `other: {type: console, timeout: 3s, config: {format: json}}`

func twoConsoles(*run) string { return consoleSinks + "\n  " + otherConsole }

// forTwoSinks sends a half to the other sink. While that is not configured no
// call by id finds its messages, so they have none.
func (r *run) forTwoSinks(p *plan) {
	p.message.Sink = "out"
	if p.dice.IntN(2) == 0 {
		p.message.Sink, p.message.Topic, p.steps = otherSink, otherSink, nil
	}
}

func (r *run) removeSink() {
	time.Sleep(2 * time.Second)
	r.configure(func(text string) string { return strings.Replace(text, otherConsole, "", 1) })
	from := time.Now()
	time.Sleep(r.between(4*time.Second, 6*time.Second))
	r.checkInTime(from, time.Now().Add(-inTime), func(e entry) bool { return e.Topic != otherSink })
	if n := r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Topic == otherSink && e.Call.After(from) }); n > 0 {
		r.find("L2", "%d messages arrived for a sink that is not there", n)
	}
	for _, a := range r.missing() {
		if a.lastDue(0).Before(time.Now().Add(-inTime)) {
			r.reached("parked meanwhile")
		}
	}
	r.configure(func(text string) string { return strings.TrimRight(text, " \n") + "\n  " + otherConsole + "\n" })
	time.Sleep(time.Second)
}

// configure restarts the bridges in turn, each with a changed configuration.
func (r *run) configure(change func(string) string) {
	for _, b := range r.bridges {
		text, err := os.ReadFile(b.config)
		if err == nil {
			err = os.WriteFile(b.config, []byte(change(string(text))), 0o600)
		}
		r.harmIf(err)
		r.restart(b, "")
	}
}
