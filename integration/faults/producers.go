//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// plan is what a producer does with one message. It comes from the seed alone.
type plan struct {
	number    int
	name      string
	message   message
	delay     time.Duration
	generated bool // the bridge makes the id, so nothing is repeated
	again     bool // sent twice
	other     bool // and once with other content under the same id
	mortal    bool // it may become a dead letter
	attempts  int  // after so many; 0: at the first, for good
	lone      bool // an accept of unknown outcome is not repeated, as it may have been forgotten
	once      bool // what is refused is not sent again
	withdraws bool // an accept of unknown outcome is followed by a cancel
	steps     []planned
	unsure    func(planned) planned // the step behind one of unknown outcome; nil: none
	dice      *rand.Rand            // for which bridge is asked
}

// planned is a call some time after the accept.
type planned struct {
	kind  kind
	after time.Duration
	delay time.Duration // of a reschedule
}

const (
	longestDelay  = 2500 * time.Millisecond
	longestFollow = 3 * time.Second
)

func (r *run) plan(n int) plan {
	p := r.usualPlan(n)
	if r.row.shape != nil {
		r.row.shape(r, &p)
	}
	return p
}

func (r *run) usualPlan(n int) plan {
	dice := rand.New(rand.NewPCG(r.seed, uint64(r.row.number)<<32|uint64(n)))
	span := func(most time.Duration) time.Duration { return drawn(dice, most) }
	name := r.nameOf(n)
	p := plan{number: n, name: name, delay: span(longestDelay), generated: dice.IntN(10) == 0, dice: dice}
	p.message = message{ID: name, Topic: "orders", Body: body(dice), Headers: []header{{headerName, &name}}, Delay: fmt.Sprintf("%dms", p.delay.Milliseconds())}
	if dice.IntN(2) == 0 {
		key := fmt.Sprintf("key %d", dice.IntN(50))
		p.message.Key = &key
	}
	for range dice.IntN(3) {
		value := body(dice)
		p.message.Headers = append(p.message.Headers, header{"x-trace", &value})
	}
	if p.generated {
		p.message.ID = ""
		return p
	}
	p.again, p.other = dice.IntN(8) == 0, dice.IntN(15) == 0
	for _, one := range []struct {
		kind kind
		of   int
	}{{looking, 6}, {rescheduling, 8}, {cancelling, 8}, {looking, 8}} {
		if dice.IntN(one.of) == 0 {
			p.steps = append(p.steps, planned{one.kind, span(longestFollow / 3), span(longestDelay)})
		}
	}
	return p
}

func (r *run) nameOf(n int) string { return fmt.Sprintf("m%d-%d-%d", r.row.number, r.seed, n) }

// drawn is a time, in whole milliseconds.
func drawn(dice *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(most))).Truncate(time.Millisecond)
}

// body is text of some length, with what JSON and a terminal make trouble of.
func body(dice *rand.Rand) string {
	return strings.Repeat(`a "ü" \ <&> `, dice.IntN(20)) + fmt.Sprint(dice.Uint64())
}

// load is the producers of a run: an open loop, so what a fault holds up does not
// slow down what comes after.
type load struct {
	run     *run
	rate    int // messages a second
	stopped chan struct{}
	group   sync.WaitGroup
	planned int
	sent    int
}

// mostAtOnce bounds the messages in the making; more than that are left out and
// count as missed.
const mostAtOnce = 2000

func (r *run) startLoad(rate int) *load {
	l := &load{run: r, rate: rate, stopped: make(chan struct{})}
	l.group.Go(l.send)
	return l
}

func (l *load) send() {
	slots := make(chan struct{}, mostAtOnce)
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-l.stopped:
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(l.rate)); l.planned < due; l.planned++ {
			select {
			case slots <- struct{}{}:
			default:
				continue
			}
			l.sent++
			p := l.run.plan(l.planned)
			l.group.Go(func() {
				defer func() { <-slots }()
				l.live(p)
			})
		}
	}
}

// stop ends the load and waits until every message is through.
func (l *load) stop() {
	close(l.stopped)
	l.group.Wait()
}

// live is the life of one message, as its producer has it.
func (l *load) live(p plan) {
	r := l.run
	id, ok := l.accept(p)
	if !ok {
		return
	}
	if p.again {
		r.ledger.note(r.accept(r.anyBridge(p.dice), p.name, p.message, p.delay))
	}
	if p.other {
		other := p.message
		other.Body += "!"
		r.ledger.note(r.accept(r.anyBridge(p.dice), p.name, other, p.delay))
	}
	for _, s := range p.steps {
		time.Sleep(s.after)
		if e := r.take(p, id, s); e.Outcome == unknown && p.unsure != nil {
			next := p.unsure(s)
			if r.take(p, id, next); next.kind == looking {
				return // and it is left at that
			}
		}
	}
}

// take takes one step with a message.
func (r *run) take(p plan, id string, s planned) (e entry) {
	b := r.anyBridge(p.dice)
	switch s.kind {
	case accepting:
		e = r.accept(b, p.name, p.message, p.delay)
	case cancelling:
		e = r.cancel(b, p.name, id)
	case rescheduling:
		e = r.reschedule(b, p.name, id, s.delay)
	case redriving:
		e = r.redrive(b, p.name, id)
	case discarding:
		e = r.discard(b, p.name, id)
	default:
		e = r.get(b, p.name, id)
	}
	r.ledger.note(e)
	return e
}

// patience is how often a producer tries until it knows that a message is there.
// A message without an id of its own is sent once: each try would be another.
// accept returns the id that the message has, if its producer knows it.
const patience = 60

func (l *load) accept(p plan) (id string, ok bool) {
	for try := range patience {
		e := l.run.enter(p)
		if e.Outcome != refused || e.Code != "" || try == 0 { // that a bridge is not there need not be told often
			l.run.ledger.note(e)
		}
		if e.Outcome == done || e.Outcome == duplicate {
			return e.ID, true
		}
		if p.withdraws && !p.generated && e.Outcome == unknown {
			l.run.ledger.note(l.run.cancel(l.run.anyBridge(p.dice), p.name, p.message.ID))
			return "", false
		}
		if (p.generated || p.lone) && e.Outcome == unknown || p.once && e.Outcome == refused && e.Code != "" && e.Code != "unavailable" {
			return "", false
		}
		time.Sleep(time.Duration(50+10*min(try, 20)) * time.Millisecond)
	}
	return "", false
}

// anyBridge is one of those that producers may use.
func (r *run) anyBridge(dice *rand.Rand) *bridge {
	return r.listeners[dice.IntN(len(r.listeners))]
}

// enter has the message accepted, as the row does it.
func (r *run) enter(p plan) entry {
	if r.row.enter != nil {
		return r.row.enter(r, p)
	}
	e := r.accept(r.anyBridge(p.dice), p.name, p.message, p.delay)
	e.Mortal, e.Attempts = p.mortal, p.attempts
	return e
}
