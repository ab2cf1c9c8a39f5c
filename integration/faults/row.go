//go:build unix

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/integration/stall"
)

// row is one line of the matrix: what is done to the system, and what must hold.
type row struct {
	number   int
	name     string
	fault    string
	expected string
	level    string // durability that the bridges are told to give
	bridges  int
	quick    bool // part of the short profile
	// set starts the Redis and tells where it is.
	set func(*run) redisSetting
	// sink starts what messages go to, and a consumer of it; it returns the
	// section sinks of the configuration. Nil is the console sink.
	sink func(*run) string
	// shape changes what the plan has for a message to what the row needs.
	shape func(*run, *plan)
	// enter is how messages are accepted; nil is by HTTP.
	enter func(*run, plan) entry
	// nemesis is the faults. When it returns all of them are over.
	nemesis func(*run)
	// after looks at what is left when everything has gone out.
	after func(*run)
	// verify looks at the whole ledger, when the run is over.
	verify func(*run)

	rate     int            // messages a second; loadRate
	guard    string         // of the bridges; 1s
	drainIn  time.Duration  // L7; defaultDrain
	perFault int            // L6; defaultPerFault
	needs    map[string]int // L10: the rare states, and how often at least
	// rolledBack: Redis loses what was not waited for, such as that a message was
	// settled.
	rolledBack bool
	// voidLate: what a bridge has called unknown has no effect from then on.
	voidLate bool
	// forgets: ids are remembered for so short a time that calls may come after it.
	forgets bool
	// split: for a while there are two systems, which no single order explains, so
	// L8 is not asked.
	split bool
	// mustLose: the run is there to show that the harness sees loss.
	mustLose bool
	// long: only if it is asked for.
	long bool
	// leftOut is why the row does not apply.
	leftOut string
}

// redisSetting is the part of a configuration that names the Redis.
type redisSetting struct {
	yaml string               // below store.redis
	node *servers.RedisServer // nil if no single one can be asked
}

const (
	lease           = 2 * time.Second
	defaultDrain    = lease + 10*time.Second
	defaultPerFault = 40
	loadRate        = 120
	warmUp          = time.Second
)

// run is one row with one seed.
type run struct {
	*servers.Host
	row    *row
	seed   uint64
	dice   *rand.Rand // the nemesis's; not for other goroutines
	binary string
	ledger *ledger
	client *http.Client
	redis  redisSetting

	// What rows keep for their nemesis; nil where it is of no use.
	proxy    *proxy
	sentinel *servers.SentinelGroup
	epoch    string    // of the sentinels, when the fault was over
	paired   time.Time // then
	cluster  *servers.Cluster
	disk     string
	sides    [2]*side
	targets
	redisSide

	bridges   []*bridge
	listeners []*bridge // those that producers use
	seen      map[string]int
	over      chan struct{}
	tails     sync.WaitGroup
	resolved  map[string]bool // messages with a cancel of unknown outcome that are gone
	buried    map[string]bool // dead letters that are in the ledger

	mu    sync.Mutex
	harms []error // of the harness
	own   []finding
}

// result is what came of a run.
type result struct {
	row      *row
	seed     uint64
	status   status
	reason   string
	findings []finding
	counts   counts
	faults   int
	took     time.Duration
	dir      string
	voids    int // runs before this that told nothing
}

type status string

const (
	passed  status = "pass"
	failed  status = "FAIL"
	void    status = "void"    // it did not reach what it is for
	skipped status = "skipped" // it can't be tried here
	broken  status = "broken"  // the harness failed
)

// play runs a row with a seed.
func play(w *row, seed uint64, o options) result {
	load := newMeter()
	out := result{row: w, seed: seed, status: skipped, reason: w.leftOut}
	if w.leftOut != "" {
		return out
	}
	h, err := servers.NewHost(fmt.Sprintf("row %d", w.number), o.log)
	if err != nil {
		out.status, out.reason = broken, err.Error()
		return out
	}
	r := &run{Host: h, row: w, seed: seed, dice: rand.New(rand.NewPCG(seed, uint64(w.number))), binary: o.binary,
		seen: map[string]int{}, over: make(chan struct{}), resolved: map[string]bool{}, buried: map[string]bool{}}
	r.soakFor = o.soak
	r.oldCommit = o.old
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext}}
	stop := stall.Watch()
	h.Do(func() { r.play(&out) })
	h.Close()
	load.stood = stop()
	out.took, out.dir = time.Since(load.began), h.Dir()
	switch disturbed := load.disturbed(); {
	case out.status == failed && disturbed != "" && excusable(out.findings):
		out.status = void
		out.reason = fmt.Sprintf("%s, so that this tells nothing: %s", disturbed, out.reason)
	case h.Failed() != nil:
		out.status, out.reason = broken, h.Failed().Error()
	case h.Skipped() != nil:
		out.status, out.reason = skipped, h.Skipped().Error()
	}
	if out.status == passed || out.status == skipped {
		os.RemoveAll(h.Dir())
	}
	return out
}

// play is the course of every run: start, calm, faults, healing, drain, check.
func (r *run) play(out *result) {
	var err error
	if r.ledger, err = openLedger(filepath.Join(r.Dir(), "ledger.jsonl")); err != nil {
		r.Fatalf("%v", err)
	}
	r.out = consoleSinks // which configurations need already
	r.redis = r.row.set(r)
	if r.row.sink != nil {
		r.out = r.row.sink(r)
	}
	for n := range r.row.bridges {
		r.addBridge(string(rune('a'+n)), nil, r.configuration(r.redis.yaml, ""))
	}
	r.listeners = append([]*bridge{}, r.bridges...)
	for _, b := range r.bridges {
		b.start("")
	}
	load := r.startLoad(cmp.Or(r.row.rate, loadRate))
	time.Sleep(warmUp)
	before := r.vitals()
	r.row.nemesis(r)
	w := laws{lease: lease, drainIn: r.row.drainLimit(), perFault: r.row.faultLimit(), rolledBack: r.row.rolledBack, voidLate: r.row.voidLate, forgets: r.row.forgets}
	load.stop()
	w.lossy, w.jumps = r.lossy, r.jumps
	w.healed, w.drained = r.drain(w.drainIn)
	r.awaitDue(w.healed)
	if r.row.after != nil {
		r.row.after(r)
	}
	leaks := r.leaks(before)
	if err := r.deadLetters(r.bridges[0]); err != nil {
		r.find("L7", "%v", err) // all is whole again
	}
	r.stopBridges()
	close(r.over)
	r.tails.Wait()
	if r.row.verify != nil {
		r.row.verify(r)
	}
	r.check(w, load, leaks, out)
}

func (w *row) drainLimit() time.Duration {
	if w.drainIn > 0 {
		return w.drainIn
	}
	return defaultDrain
}

func (w *row) faultLimit() int {
	if w.perFault > 0 {
		return w.perFault
	}
	return defaultPerFault
}

// addBridge makes a place for a process. Nothing is started.
func (r *run) addBridge(name string, prefix []string, yaml string) *bridge {
	file := filepath.Join(r.Dir(), name+".yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		r.Fatalf("write configuration: %v", err)
	}
	b := &bridge{run: r, name: name, config: file, prefix: prefix}
	r.bridges = append(r.bridges, b)
	r.Cleanup(func() {
		if b.process != nil {
			b.kill()
		}
	})
	return b
}

// configuration is that of a bridge. It listens on listen, or on a free port.
func (r *run) configuration(redis, listen string) string {
	listener := `listen: "127.0.0.1:0"`
	if listen != "" {
		listener = fmt.Sprintf(`listen: %q, insecure: true`, listen)
	}
	return fmt.Sprintf(`version: 1
store:
  redis: %s
  durability: %s
  durability_timeout: 1s
  lease: %s
  guard: %s
http: {%s}
retry: {initial: 200ms, max: 1s}
sinks:
  %s
%s`, redis, r.row.level, lease, cmp.Or(r.row.guard, "1s"), listener, r.out, r.more)
}

// drain waits until nothing more is to be expected, from now and from when the
// last message is due. What is left over by then is looked for in the store.
func (r *run) drain(limit time.Duration) (healed, drained time.Time) {
	healed = time.Now()
	for _, a := range r.ledger.accounts() {
		if due := a.lastDue(r.lastAhead()); a.accepted() && !a.settled() && due.After(healed) {
			healed = due
		}
	}
	for deadline := healed.Add(limit); ; time.Sleep(100 * time.Millisecond) {
		missing := r.missing()
		if len(missing) == 0 {
			return healed, time.Now()
		}
		if time.Now().After(deadline) {
			r.lookFor(missing)
			return healed, time.Time{}
		}
		r.bury(missing)
		r.resolve(missing)
	}
}

func (r *run) missing() []*account {
	var missing []*account
	for _, a := range r.ledger.accounts() {
		if a.accepted() && !a.settled() && !r.resolved[a.name] && !a.lossAllowed(r.lossy) {
			missing = append(missing, a)
		}
	}
	return missing
}

// resolve finds out which of the missing were withdrawn by a cancel or a discard whose
// answer was lost, when they are all that is missing.
func (r *run) resolve(missing []*account) {
	for _, a := range missing {
		if !a.maybeWithdrawn() {
			return
		}
	}
	for _, a := range missing {
		e := r.get(r.bridges[0], a.name, a.id())
		if r.row.voidLate { // what a late call has done shows here
			r.ledger.note(e)
		}
		if e.Outcome == notFound || e.State == "cancelled" || e.State == "discarded" {
			r.resolved[a.name] = true
		}
	}
}

const (
	lookTries = 20
	lookPause = 500 * time.Millisecond
	unasked   = "unasked" // the state of what the store has not told of
)

// lookFor notes what the store says of messages that have not arrived. It asks
// until there is an answer, as none is no loss.
func (r *run) lookFor(missing []*account) {
	tries := lookTries
	for _, a := range missing {
		e := r.get(r.bridges[0], a.name, a.id())
		for ; e.Outcome != done && e.Outcome != notFound && tries > 0; tries-- {
			time.Sleep(lookPause)
			e = r.get(r.bridges[0], a.name, a.id())
		}
		if e.Outcome == notFound {
			continue
		}
		if e.Kind = parking; e.Outcome != done {
			e.State = unasked
		}
		r.ledger.note(e)
	}
}

func (r *run) stopBridges() {
	for _, b := range r.bridges {
		if err := b.stop(); err != nil {
			r.find("L9", "%v", err)
		}
	}
}

// find adds a finding of the row's own.
func (r *run) find(law, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = append(r.own, breach(law, format, args...))
}

// harm notes that the harness itself failed.
func (r *run) harm(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.harms = append(r.harms, err)
}

// harmIf is harm if there is an error.
func (r *run) harmIf(err error) {
	if err != nil {
		r.harm(err)
	}
}

// logFile is where a process logs.
func (r *run) logFile(process string) string { return filepath.Join(r.Dir(), process+".log") }
