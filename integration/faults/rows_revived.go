//go:build unix

package main

import (
	"time"
)

// sinkThatRefuses is the console, which refuses messages of one topic for good while a
// file is there.
func sinkThatRefuses(r *run) string {
	r.refuses = r.TempDir() + "/refuses"
	r.env = append(r.env, "DELAYBRIDGE_FAILPOINT=deliver.poison:1+:permanent@"+r.refuses)
	return consoleSinks
}

// revive has most messages refused, and producers that redrive and discard them, some
// before they are dead. What has no known outcome they ask for again; or they ask for
// the other; or look, and leave it at that.
func (r *run) revive(p *plan) {
	p.generated, p.again, p.other, p.steps = p.dice.IntN(3) == 0, false, false, nil
	if p.message.ID = p.name; p.generated {
		p.message.ID = ""
	}
	if p.dice.IntN(3) == 0 {
		return
	}
	p.message.Topic, p.mortal = failsTopic, true
	for n := range p.dice.IntN(4) {
		after := drawn(p.dice, longestFollow/5)
		if n == 0 {
			after += p.delay
		}
		p.steps = append(p.steps, planned{[]kind{redriving, discarding}[p.dice.IntN(2)], after, 0})
	}
	if !p.generated && p.dice.IntN(3) == 0 {
		p.steps = append(p.steps, planned{accepting, 0, 0})
	}
	next := []map[kind]kind{{redriving: redriving, discarding: discarding}, {redriving: discarding, discarding: redriving}, {redriving: looking, discarding: looking}}[p.dice.IntN(3)]
	p.unsure = func(s planned) planned { return planned{next[s.kind], 0, 0} }
}

// lateRevivals has calls about dead letters late, which is no reason to repeat
// anything. The sink takes what it has refused now and then, and in the end.
func (r *run) lateRevivals() {
	over := r.strikeClean("late redrives and discards")
	r.proxy.late.hold(map[string]float64{"redrive": 0.15, "discard": 0.15, "park": 0.03})
	r.during(span, func() {
		r.touch(r.refuses)
		time.Sleep(r.between(time.Second, 2*time.Second))
		r.remove(r.refuses)
		time.Sleep(r.between(200*time.Millisecond, time.Second))
	})
	r.awaitLate()
	over()
}

// countRevived finds what was delivered by another attempt than the first of a life.
func (r *run) countRevived() {
	for _, a := range r.ledger.accounts() {
		redriven, discarded := a.any(redriving, done), a.any(discarding, done)
		for state, holds := range map[string]bool{
			"redriven and delivered":      redriven && len(a.arrivals) > 0,
			"died again":                  redriven && (discarded || len(a.deaths) > 0),
			"redriven by a generated id":  redriven && a.calls[0].Generated,
			"discarded by a generated id": discarded && a.calls[0].Generated,
			"accepted again":              discarded && a.any(accepting, duplicate),
			"left alone":                  a.any(redriving, unknown) && a.any(looking, done) && !redriven && !discarded,
		} {
			if holds {
				r.reached(state)
			}
		}
		for _, got := range a.arrivals {
			if got.Attempt != 1 {
				r.find("L6", "%s arrived by attempt %d, and no attempt before it was of the same life", a.name, got.Attempt)
			}
		}
	}
}
