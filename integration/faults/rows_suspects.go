//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// suspectRows are messages on which a sink fails as a whole.
func suspectRows() []*row {
	return []*row{{number: 50, name: "plain error and poison message", level: "fsync", bridges: 2, set: safeRedis, sink: crashingSinks, shape: (*run).plant, nemesis: (*run).sufferSuspects, verify: (*run).countSuspects,
		fault:    "a sink answers a plain error for a whole batch if one of 1 % of its messages is in it; a plugin ends on each of two messages",
		expected: "those are dead letters after all their attempts; their neighbours are delivered in time and spend nothing", perFault: 200, drainIn: 30 * time.Second,
		needs: map[string]int{"dead": 5, "ended the plugin": 2}}}
}

// What a sink is to fail on, by its topic.
const (
	failsTopic = "poison" // see the failpoint deliver.poison
	endsTopic  = "crash"  // see crashplugin

	fewAttempts = 3
	// neighbourIn is how long the plugin may take to be back.
	neighbourIn = 5 * time.Second
)

// endsOn are the messages, by number, on which the plugin ends.
func endsOn() []int { return []int{301, 701} }

// crashingSinks are the console, which can answer a plain error, and a plugin, which
// can end.
func crashingSinks(r *run) string {
	r.env = append(r.env, "DELAYBRIDGE_FAILPOINT=deliver.poison:1+:error")
	retry := fmt.Sprintf("retry: {initial: 100ms, max: 500ms, max_attempts: %d}", fewAttempts)
	return fmt.Sprintf("out: {type: console, timeout: 3s, %s, config: {format: json}}\n  %s",
		retry, r.pluginSink("odd", "./integration/faults/crashplugin", ", "+retry))
}

// plant gives a few messages a topic that their sink fails on. Every other message is
// the plugin's.
func (r *run) plant(p *plan) {
	p.message.Sink = "out"
	if p.number%2 == 1 {
		p.message.Sink = "odd"
	}
	switch fails := p.dice.IntN(100) == 0; {
	case slices.Contains(endsOn(), p.number):
		p.message.Topic = endsTopic
	case fails && p.message.Sink == "out":
		p.message.Topic = failsTopic
	default:
		return
	}
	p.mortal, p.attempts = true, fewAttempts
	p.generated, p.message.ID, p.again, p.other, p.steps = false, p.name, false, false, nil
}

func (r *run) sufferSuspects() {
	over, from := r.strikeClean("plain errors"), time.Now()
	crashes := r.strike("plugin ends") // its neighbours may come again
	time.Sleep(span)
	crashes()
	over()
	r.checkInTime(from, time.Now().Add(-inTime), func(e entry) bool { return e.Bridge != "" }) // of the console
}

// countSuspects finds neighbours that have spent attempts. What was with the plugin
// when it ended may have been sent, so that it counts as an attempt.
func (r *run) countSuspects() {
	late := 0
	for _, a := range r.ledger.accounts() {
		for _, e := range a.arrivals {
			if ofPlugin := e.Bridge == ""; e.Attempt > 1 && !ofPlugin || e.Attempt >= fewAttempts {
				r.find("L6", "%s arrived by attempt %d, and another message was to blame", a.name, e.Attempt)
			}
			if e.Call.Sub(e.Due) > neighbourIn {
				late++
			}
		}
		for _, n := range endsOn() {
			if a.name == r.nameOf(n) && len(a.deaths) > 0 {
				r.reached("ended the plugin")
			}
		}
	}
	if late > 0 {
		r.find("L7", "%d neighbours were more than %s late", late, neighbourIn)
	}
}
