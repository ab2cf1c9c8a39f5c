//go:build unix

package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/integration/stall"
)

// trial is a bridge with two sinks under a steady load: the broker that is
// treated badly, and another that must not notice.
type trial struct {
	*testing.T
	bridge *instance
	redis  *servers.RedisServer
	target *target
	out    *os.File // of the other sink

	faults   []span
	mu       sync.Mutex
	accepted map[string]accepted // by the sink "broker"
	others   map[string]bool     // accepted by the sink "other"
}

// span is the time that a fault took.
type span struct {
	what     string
	from, to time.Time
}

const (
	calmFor   = 3 * time.Second // before a fault, to compare with
	recoverIn = 90 * time.Second
	loadEvery = 10 * time.Millisecond
	loadDelay = "200ms"
	// noticeable is more than a busy machine explains, beyond the hiccups that it
	// and its Redis had, and less than a sink that is held back by another shows:
	// that waits for deadlines of three seconds and more. The figures themselves are
	// logged.
	noticeable = 2 * time.Second
	// caughtUp is less than so many messages, as more come all the time.
	caughtUp = 20
)

func newTrial(t *testing.T, g *target) *trial {
	t.Helper()
	r := &trial{T: t, target: g, out: output(t), accepted: map[string]accepted{}, others: map[string]bool{}}
	console := &target{kind: "console", config: map[string]any{"format": "json"}}
	r.redis = servers.Redis(t, servers.RedisOptions{})
	r.bridge = serve(t, bridgeConfigOn(t, r.redis, map[string]*target{"broker": g, "other": console}), r.out)
	return r
}

// load sends to both sinks, a hundred messages a second each, until stop.
func (r *trial) load() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		ticks := time.NewTicker(loadEvery)
		defer ticks.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			r.sendBoth(n)
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
	stop = func() { cancel(); group.Wait() }
	r.Cleanup(stop)
	return stop
}

func (r *trial) sendBoth(n int) {
	m := r.target.message(fmt.Sprintf("broker-%d", n))
	other := entry{ID: fmt.Sprintf("other-%d", n), Sink: "other", Topic: "t", Body: []byte("body"), Delay: loadDelay}
	sent := time.Now()
	receipts, err := r.bridge.insist([]entry{m.entry, other})
	if err != nil || !receipts[0].accepted() || !receipts[1].accepted() {
		r.Errorf("message %d was not accepted: %v %+v", n, err, receipts)
		return
	}
	if err := m.take(receipts[0], sent); err != nil {
		r.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted[m.ID], r.others[other.ID] = m, true
}

// message is one for the sink "broker".
func (g *target) message(id string) accepted {
	headers := g.someHeaders()
	return accepted{headers: headers, entry: entry{ID: id, Sink: "broker", Topic: g.topic, Key: g.key(rand.IntN(200)),
		Body: someBytes(400), Headers: headerEntries(headers), Delay: loadDelay}}
}

// during runs a fault and compares the other sink's lateness with that of the
// calm before it. What comes after a fault, such as a server that starts, takes
// processors from everyone and says nothing about the bridge.
func (r *trial) during(what string, fault func()) {
	r.Helper()
	calm := time.Now()
	time.Sleep(calmFor)
	began, stop, stopRedis := time.Now(), stall.Watch(), stall.WatchServer(r.pingRedis)
	defer stop()
	defer stopRedis()
	fault()
	ended := time.Now()
	r.faults = append(r.faults, span{what, began, ended})
	poll.Until(r.T, recoverIn, "the other sink is up to date", func() bool { return r.bridge.stats("other").Due < caughtUp })
	hiccup := stop() + stopRedis()
	before, during := r.otherLateness(calm, began), r.otherLateness(began, ended)
	r.Logf("%s: the other sink's lateness p99 was %s before and %s during it, the hiccups of the machine and of Redis up to %s", what,
		quantile(before, 0.99), quantile(during, 0.99), hiccup)
	if limit := quantile(before, 0.99)*12/10 + hiccup + noticeable; quantile(during, 0.99) > limit {
		r.Errorf("%s: the other sink's lateness p99 went from %s to %s", what, quantile(before, 0.99), quantile(during, 0.99))
	}
}

func (r *trial) pingRedis() error {
	_, err := r.redis.Do("PING")
	return err
}

// otherLateness is that of the other sink's messages that were due in a span.
func (r *trial) otherLateness(from, to time.Time) []time.Duration {
	var all []time.Duration
	for _, some := range deliveries(r.T, r.out.Name()) {
		if due := some[0].DeliverAt; due.After(from) && due.Before(to) {
			all = append(all, time.Duration(some[0].Lateness*float64(time.Millisecond)))
		}
	}
	slices.Sort(all)
	return all
}

// recovered waits until the broker's sink has caught up.
func (r *trial) recovered() {
	r.Helper()
	poll.Until(r.T, recoverIn, "the sink has caught up", func() bool {
		s := r.bridge.stats("broker")
		return s.Paused == "" && s.Due < caughtUp
	})
}

// finish stops the bridge when all has been delivered, settles the accounts and
// returns the longest stall.
func (r *trial) finish() time.Duration {
	r.Helper()
	l := newLedger(r.target)
	l.accepted = maps.Clone(r.accepted)
	arrivals := r.target.consume(r.T)
	l.gather(r.T, arrivals, gatherIn)
	poll.Until(r.T, recoverIn, "the other sink has delivered all", func() bool {
		return len(deliveries(r.T, r.out.Name())) == len(r.others)
	})
	r.bridge.stop()
	l.gatherRest(r.T, arrivals)
	l.resolveLate()
	l.check(r.T)
	repeats := l.checkRepeats(r.T)
	for id, some := range deliveries(r.T, r.out.Name()) {
		if len(some) != 1 || some[0].Attempt != 1 || !r.others[id] {
			r.Errorf("the other sink got %s %d times, first as attempt %d", id, len(some), some[0].Attempt)
		}
	}
	r.Logf("%d accepted and delivered, %d repeats", len(l.accepted), repeats)
	return r.stalls(l)
}

// stalls tells for each fault how long the messages that were due in it waited
// until they were in the broker, if that keeps the time.
func (r *trial) stalls(l *ledger) (longest time.Duration) {
	r.Helper()
	for _, fault := range r.faults {
		var waits []time.Duration
		for id, all := range l.arrived {
			due, first := l.accepted[id].deliverAt, slices.MinFunc(all, func(a, b arrival) int { return a.stored.Compare(b.stored) })
			if !first.stored.IsZero() && due.After(fault.from) && due.Before(fault.to) {
				waits = append(waits, first.stored.Sub(due))
			}
		}
		if len(waits) == 0 { // the broker does not keep the time
			continue
		}
		slices.Sort(waits)
		r.Logf("%s for %s: %d messages were due, p50 %s and at most %s later they were in the broker", fault.what,
			fault.to.Sub(fault.from).Round(time.Millisecond), len(waits), quantile(waits, 0.5), quantile(waits, 1))
		longest = max(longest, quantile(waits, 1))
	}
	return longest
}

// standing is how a message of the broker's sink stands.
type standing struct {
	State  core.State `json:"state"`
	Reason string     `json:"reason"`
	Error  string     `json:"error"`
}

// standing is empty if the bridge does not tell now.
func (r *trial) standing(id string) (s standing) {
	r.Helper()
	if err := r.bridge.get("/v1/messages/"+id+"?sink=broker", &s); err != nil {
		r.Logf("how %s stands: %v", id, err)
	}
	return s
}

// countDials stands in for a dead server for some time and returns how many
// connections a second were tried.
func (r *trial) countDials(addr string, span time.Duration) float64 {
	r.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		r.Fatal(err)
	}
	var count atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			conn.Close()
		}
	})
	began := time.Now()
	time.Sleep(span)
	listener.Close()
	group.Wait()
	return float64(count.Load()) / time.Since(began).Seconds() // a busy machine sleeps longer
}
