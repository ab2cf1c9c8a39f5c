//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"time"
)

// span is how long a row has its faults.
const span = 9 * time.Second

// between draws a time.
func (r *run) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.dice.Int64N(int64(most-least)))
}

// strike notes a fault that begins now; the call of its result, when it is over.
func (r *run) strike(what string, struck ...*bridge) (over func()) {
	f := fault{What: what, From: time.Now()}
	for _, b := range struck {
		f.Bridges = append(f.Bridges, b.incarnation())
	}
	return r.noting(f)
}

// strikeClean notes a fault that explains no repeat.
func (r *run) strikeClean(what string) (over func()) {
	return r.noting(fault{What: what, From: time.Now(), Clean: true})
}

// noting returns what notes a fault that is over.
func (r *run) noting(f fault) func() {
	return func() {
		f.To = time.Now()
		r.ledger.noteFault(f)
	}
}

// outage has a server down, or standing still, for a time.
func (r *run) outage(what string, begin, end func(), least, most time.Duration) {
	over := r.strike(what)
	begin()
	time.Sleep(r.between(least, most))
	end()
	over()
}

// crash ends the process of b as a crash does.
func (r *run) crash(b *bridge) {
	over := r.strike("kill", b)
	b.kill()
	over()
}

// reached counts a rare state.
func (r *run) reached(state string) { r.seen[state]++ }

// failAt ends the process of b, starts one that is to fail at a point, waits for
// that, and starts another.
func (r *run) failAt(b *bridge, failpoint string) { r.failAtWithin(b, failpoint, 4*time.Second) }

// failAtWithin gives it some time to come to that point.
func (r *run) failAtWithin(b *bridge, failpoint string, within time.Duration) {
	r.crash(b)
	b.launch(failpoint)
	name := b.incarnation()
	began := time.Now()
	if b.awaitReady() && !b.awaitEnd(within) {
		b.kill()
	} else {
		r.reached("failpoint")
		point, _, _ := strings.Cut(failpoint, ":")
		r.reached(point)
	}
	b.away()
	// What it delivered before it was ready to be asked counts as well.
	r.ledger.noteFault(fault{What: failpoint, Bridges: []string{name}, From: latest(began, time.Now().Add(-beforeFault)), To: time.Now()})
	b.start("")
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pause stops the process of b for a time.
func (r *run) pause(b *bridge, d time.Duration) {
	over := r.strike("pause", b)
	b.signal(syscall.SIGSTOP)
	time.Sleep(d)
	b.signal(syscall.SIGCONT)
	over()
	r.reached("pause")
}

// during repeats something until the time is over.
func (r *run) during(d time.Duration, f func()) {
	for deadline := time.Now().Add(d); time.Now().Before(deadline); {
		f()
	}
}

// touch and remove make a condition of failpoints true and false.
func (r *run) touch(file string) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		r.Fatalf("%v", err)
	}
}

func (r *run) remove(file string) {
	if err := os.Remove(file); err != nil {
		r.Fatalf("%v", err)
	}
}
