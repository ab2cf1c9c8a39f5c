package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// serveMany serves so many sinks until stop is called.
func serveMany(s *Store, sinks int, work func(context.Context, core.Bucket) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make([]error, sinks)
	var all sync.WaitGroup
	for n := range sinks {
		all.Go(func() { errs[n] = s.Serve(ctx, fmt.Sprint("sink", n), work) })
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// ownedOf is how many buckets of so many sinks are owned.
func ownedOf(s *Store, sinks int) (n int) {
	for sink := range sinks {
		n += len(s.owned.owns(fmt.Sprint("sink", sink)))
	}
	return n
}

// tally is a hook that counts the calls of each script, and their keys.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
	keys  map[string]int
}

func (c *tally) of(s *script) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[s.sha]
}

func (c *tally) keysOf(s *script) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[s.sha]
}

func (c *tally) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tally) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *tally) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.mu.Lock()
		for _, cmd := range cmds {
			sha, _ := cmd.Args()[1].(string)
			c.calls[sha]++
			if call, ok := cmd.(call); ok {
				c.keys[sha] += call.Args()[2].(int)
			}
		}
		c.mu.Unlock()
		return next(ctx, cmds)
	}
}

// TestIdleSinksCostLittle: an idle store takes no messages to see that there are none;
// all its sinks share a subscription; and a bucket is a goroutine, a sink not many.
func TestIdleSinksCostLittle(t *testing.T) {
	// Not in parallel: it counts the goroutines of the process.
	const sinks, buckets = 50, 16
	server := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{server.Addr()}, Buckets: buckets, Lease: 30 * time.Second, Guard: time.Second})
	ran := &tally{calls: make(map[string]int), keys: make(map[string]int)}
	s.serving.AddHook(ran)
	s.keeping.AddHook(ran)
	before := runtime.NumGoroutine()
	d := &core.Dispatcher{Name: "any", Sink: newCollector(0)}
	stop := serveMany(s, sinks, d.Run)
	until(t, "all is owned", func() bool { return ownedOf(s, sinks) == sinks*buckets })
	until(t, "each bucket was looked into", func() bool { return ran.of(s.scripts.take) >= sinks*buckets })
	takes, renewals := ran.of(s.scripts.take), ran.keysOf(s.scripts.renew)
	until(t, "each bucket has been renewed three times", func() bool { return ran.keysOf(s.scripts.renew) >= renewals+3*sinks*buckets })
	if calls, keys := ran.of(s.scripts.renew), ran.keysOf(s.scripts.renew); calls*buckets > 2*keys {
		t.Errorf("%d calls for %d renewals, of %d buckets a sink", calls, keys, buckets)
	}
	if more := ran.of(s.scripts.take) - takes; more > sinks*buckets {
		t.Errorf("%d takes in three guard periods of %d idle buckets", more, sinks*buckets)
	}
	clients, _ := server.MustDo("CLIENT", "LIST").(string)
	if n := strings.Count(clients, "\n"); n > 2*callsAtOnce+failingAtOnce+keepingSize+10 {
		t.Errorf("%d connections", n)
	}
	if n := strings.Count(clients, " flags=P "); n != 1 {
		t.Errorf("%d connections that listen", n)
	}
	if more := runtime.NumGoroutine() - before; more > sinks*buckets+3*sinks+200 {
		t.Errorf("%d goroutines more", more)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestLostWakeUpIsNoticed: by the next renewal, also if nothing is heard of it.
func TestLostWakeUpIsNoticed(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.Lease, config.Guard = 1, time.Hour, time.Hour // nobody looks by the clock
	s := open(t, config)
	v := byHand(t, s, (&core.Dispatcher{Name: "orders", Sink: newCollector(0)}).Run)
	if !v.requestNow(t.Context(), 0) {
		t.Fatal("bucket is not owned")
	}
	defer v.giveBack(t.Context(), 0)
	other := second(t, s, "other") // whose wake-up nobody hears: there is no subscription
	state := func() core.State {
		entry, err := s.Get(t.Context(), core.Ref{ID: "a", Sink: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		return entry.State
	}
	until(t, "its owner waits", func() bool { return v.leases[0].bucket.waits() })
	if r := other.Park(t.Context(), &core.Message{ID: "a", Sink: "orders", Topic: "t"})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := state(); got != core.Scheduled {
		t.Fatalf("without a wake-up it is %s", got)
	}
	until(t, "it is delivered", func() bool {
		v.renew(t.Context(), time.Now().Add(v.leaseTime))
		return state() == core.Delivered
	})
}

// waits tells whether the owner is asleep.
func (b *bucket) waits() bool {
	b.alarm.mu.Lock()
	defer b.alarm.mu.Unlock()
	return b.sleep.n >= 0
}

// TestSteppedClockIsNoticed: of Redis, by what renewals tell of it, and drift is not.
func TestSteppedClockIsNoticed(t *testing.T) {
	t.Parallel()
	var r clockRange
	sent := time.Now()
	at := sent.Add
	for _, c := range []struct {
		name            string
		redis, received time.Duration
		want            bool
	}{
		{"at first nothing is known", time.Hour, 10 * time.Millisecond, false},
		{"the same", time.Hour, 10 * time.Millisecond, false},
		{"within the time of the exchange", time.Hour + 900*time.Millisecond, time.Second, false},
		{"ahead", time.Hour + time.Second, 10 * time.Millisecond, true},
		{"still ahead", time.Hour + time.Second, 10 * time.Millisecond, false},
		{"back", 0, 10 * time.Millisecond, true},
	} {
		if got := r.stepped(at(c.redis), sent, at(c.received)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestDeadSubscriptionIsBegunAgain: a server that just keeps silent is noticed, as the
// client library does not.
func TestDeadSubscriptionIsBegunAgain(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.Lease, config.Guard = 1, minLease, time.Hour
	s := open(t, config)
	defer serveWith(t, s, idle)()
	name := s.keys.wakeChannel(s.config.Instance, "orders")
	heard := func() int64 { return s.client.PubSubNumSub(t.Context(), name).Val()[name] }
	until(t, "it is subscribed", func() bool { return heard() == 1 })
	s.loop.post(func() { // as if it were on a server that is cut off
		if err := s.loop.heard.pubsub.Unsubscribe(context.Background(), name, s.loop.echoChannel()); err != nil {
			t.Error(err)
		}
	})
	until(t, "it is not any more", func() bool { return heard() == 0 })
	until(t, "it is subscribed again", func() bool { return heard() == 1 })
}
