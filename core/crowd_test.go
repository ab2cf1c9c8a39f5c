package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

var errTooLarge = errors.New("record too large") // as a plain author writes it

// crowdSink is a sink that fails every call with a bad message in it, or every
// call while it is down.
type crowdSink struct {
	fail    error // of a call with a bad message
	panics  bool  // at a bad message
	crashes bool  // at a bad message, which ends the calls under way: they fail with fail
	takes   time.Duration
	most    int // messages of a call

	mu        sync.Mutex
	down      error
	calls     int
	confirmed map[string]int // id: the attempt
	attempts  map[string]int // the highest that was seen
	twice     []string       // sent twice as the same attempt though it may have been sent
	crash     chan struct{}  // closed when a call crashes
}

func newCrowdSink(fail error) *crowdSink {
	return &crowdSink{fail: fail, confirmed: make(map[string]int), attempts: make(map[string]int)}
}

func isBad(m *core.Message) bool { return strings.HasPrefix(m.ID, "bad") }

func (p *crowdSink) Deliver(_ context.Context, batch []*core.Message) error {
	crash, err := p.begin(batch)
	if err != nil {
		return err
	}
	timer := time.NewTimer(p.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-crash:
		return p.fail
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range batch {
		p.confirmed[m.ID] = m.Attempt
	}
	return nil
}

func (p *crowdSink) begin(batch []*core.Message) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.down != nil {
		return nil, p.down
	}
	unknown, bad := core.ClassOf(p.fail) == core.Unknown, false
	for _, m := range batch {
		if unknown && m.Attempt == 1 && p.attempts[m.ID] == 1 {
			p.twice = append(p.twice, m.ID)
		}
		p.attempts[m.ID] = max(p.attempts[m.ID], m.Attempt)
		bad = bad || isBad(m)
	}
	switch {
	case bad && p.panics:
		panic("encoder fell over")
	case bad && p.crashes:
		close(p.crash)
		p.crash = make(chan struct{})
		return nil, p.fail
	case bad:
		return nil, p.fail
	}
	return p.crash, nil
}

func (p *crowdSink) Close() error { return nil }

func (p *crowdSink) goDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

func (p *crowdSink) count() (calls, confirmed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, len(p.confirmed)
}

// crowd is a bridge of one sink with many messages in virtual time.
type crowd struct {
	*testing.T
	in   *core.Interceptor
	d    *core.Dispatcher
	sink *crowdSink
	good int
}

func inCrowd(t *testing.T, buckets, attempts int, sink *crowdSink, test func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{Buckets: buckets})
		sink.crash = make(chan struct{}) // in the bubble
		c := &crowd{T: t, sink: sink, d: &core.Dispatcher{Name: "orders", Sink: sink, MaxBatch: sink.most, Retry: core.RetryPolicy{MaxAttempts: attempts}}}
		c.in = core.NewBridge(store, core.Options{}, c.d).Interceptor
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- store.Serve(ctx, "orders", c.d.Run) }()
		test(c)
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// park accepts what is due together, delay from now;
// edit may change each.
func (c *crowd) park(delay time.Duration, ids []string, edit func(*core.Message)) {
	c.Helper()
	messages := make([]*core.Message, len(ids))
	for n, id := range ids {
		messages[n] = message(id, delay)
		if edit != nil {
			edit(messages[n])
		}
		if !isBad(messages[n]) {
			c.good++
		}
	}
	for _, r := range c.in.Accept(c.Context(), messages...) {
		if r.Err != nil {
			c.Fatal(r.Err)
		}
	}
}

// trickle accepts one good message in each interval.
func (c *crowd) trickle(lasting, interval time.Duration) {
	for n := range int(lasting / interval) {
		c.park(0, []string{fmt.Sprintf("t%d-%d", c.good, n)}, nil)
		time.Sleep(interval)
	}
}

// wantGood checks that the good ones arrived, and no later attempt than most.
func (c *crowd) wantGood(most int) {
	c.Helper()
	calls, confirmed := c.sink.count()
	if confirmed != c.good {
		c.Errorf("%d of %d good ones were delivered in %d calls", confirmed, c.good, calls)
	}
	for id, attempt := range c.sink.confirmed {
		if attempt > most {
			c.Errorf("%s was delivered as attempt %d, want %d at most", id, attempt, most)
		}
	}
	if dead := c.d.Totals().Dead; int(dead) > c.bad() {
		c.Errorf("%d dead letters", dead)
	}
	if len(c.sink.twice) > 0 {
		c.Errorf("sent twice as the same attempt: %v", c.sink.twice[:min(5, len(c.sink.twice))])
	}
}

func (c *crowd) bad() (n int) {
	for id := range c.sink.attempts {
		if strings.HasPrefix(id, "bad") {
			n++
		}
	}
	return n
}

func (c *crowd) wantDead(ids ...string) {
	c.Helper()
	for _, id := range ids {
		if e, err := c.in.Get(c.Context(), core.Ref{ID: id}); err != nil || e.State != core.Dead || e.Reason != "attempts" {
			c.Errorf("%s is %s with %d attempts because of %q (%v)", id, e.State, e.Message.Attempt, e.Reason, err)
		}
	}
}

// mixed are ids in an order in which the bad ones stand at the places.
func mixed(good int, places ...int) (ids, bad []string) {
	for n := range good {
		ids = append(ids, fmt.Sprint("m", n))
	}
	for n, at := range places {
		id := fmt.Sprint("bad", n)
		ids, bad = append(ids[:at:at], append([]string{id}, ids[at:]...)...), append(bad, id)
	}
	return ids, bad
}

// TestPoisonIsIsolated: a message that fails every call that it is part of ends
// as a dead letter, and its neighbours are delivered soon and spend nothing
// where nothing of them was sent.
func TestPoisonIsIsolated(t *testing.T) {
	classes := map[string]error{"plain": errTooLarge, "retry": core.Classify(core.Retry, errTooLarge),
		"blocked": core.Classify(core.Blocked, errTooLarge), "unknown": core.Classify(core.Unknown, errTooLarge), "panic": errTooLarge, "crash": core.Classify(core.Unknown, fmt.Errorf("%w: %w", core.ErrCrashed, errTooLarge))}
	places := map[string][]int{"first": {0}, "middle": {500}, "last": {1000}, "cluster": {300, 300, 300, 300, 300}, "scattered": {0, 100, 101, 499, 700, 1004}}
	for class, err := range classes {
		for place, at := range places {
			for _, buckets := range []int{1, 16} {
				t.Run(fmt.Sprintf("%s/%s/%d", class, place, buckets), func(t *testing.T) {
					sink := newCrowdSink(err)
					sink.panics, sink.crashes = class == "panic", class == "crash"
					sink.takes = 3 * time.Millisecond
					inCrowd(t, buckets, 5, sink, func(c *crowd) {
						ids, bad := mixed(1000, at...)
						c.park(time.Second, ids, nil)
						time.Sleep(time.Minute)
						if _, confirmed := sink.count(); confirmed != c.good {
							t.Errorf("%d of %d good ones were delivered within a minute", confirmed, c.good)
						}
						c.trickle(10*time.Minute, 700*time.Millisecond)
						time.Sleep(time.Minute)
						most := 1
						if core.ClassOf(err) == core.Unknown || sink.panics {
							most = 4
						}
						c.wantGood(most)
						c.wantDead(bad...)
					})
				})
			}
		}
	}
}

// TestPoisonOfOneKey: where all messages have one key, those behind a bad one
// still go, in their order.
func TestPoisonOfOneKey(t *testing.T) {
	sink := newCrowdSink(errTooLarge)
	inCrowd(t, 1, 3, sink, func(c *crowd) {
		ids, bad := mixed(100, 0, 0, 0, 0, 50)
		c.park(time.Second, ids, func(m *core.Message) { m.Key = []byte("k") })
		c.trickle(10*time.Minute, time.Second)
		c.wantGood(1)
		c.wantDead(bad...)
	})
}

// TestDownCostsNothing: a broker that is down for hours leaves no dead letter,
// spends no attempt, and is called about once a second; a poison message among
// what waits changes nothing of that.
func TestDownCostsNothing(t *testing.T) {
	for name, bad := range map[string][]int{"no poison": nil, "poison": {0, 20}} {
		for _, buckets := range []int{1, 16} {
			for _, down := range []error{errBroker, core.Classify(core.Blocked, errBroker)} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, buckets, core.ClassOf(down)), func(t *testing.T) {
					sink := newCrowdSink(errTooLarge)
					inCrowd(t, buckets, 1, sink, func(c *crowd) {
						ids, bads := mixed(1000, bad...)
						c.park(time.Second, ids, nil)
						sink.goDown(down)
						time.Sleep(3 * time.Hour)
						calls, confirmed := sink.count()
						if dead := c.d.Totals().Dead; confirmed > 0 || dead > 0 || c.d.Totals().Retried > 0 || calls > 3*3600+10*buckets {
							t.Errorf("%d confirmed, %d dead and %d retried in %d calls", confirmed, dead, c.d.Totals().Retried, calls)
						}
						sink.goDown(nil)
						c.trickle(time.Minute, time.Second)
						c.wantGood(1)
						c.wantDead(bads...)
					})
				})
			}
		}
	}
}

// TestFlappingBroker: the innocent spend nothing, though each has but one
// attempt, and though a poison message is among them.
func TestFlappingBroker(t *testing.T) {
	for seed := range uint64(10) {
		buckets := []int{1, 16}[seed%2]
		t.Run(fmt.Sprintf("%d, seed %d", buckets, seed), func(t *testing.T) {
			sink := newCrowdSink(errTooLarge)
			sink.takes, sink.most = 20*time.Millisecond, 10
			inCrowd(t, buckets, 1, sink, func(c *crowd) {
				random := rand.New(rand.NewPCG(seed, 1))
				ids, _ := mixed(5000, 0, 100, 1000)
				c.park(time.Second, ids, nil)
				for range 200 {
					sink.goDown(errBroker)
					time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
					sink.goDown(nil)
					time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
				}
				c.trickle(time.Minute, time.Second)
				c.wantGood(1)
				c.wantDead("bad0", "bad1", "bad2")
			})
		})
	}
}
