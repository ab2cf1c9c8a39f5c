package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// fleet is instances that serve one sink, as far as heartbeats know of them.
type fleet struct {
	t     *testing.T
	s     *Store
	sink  string
	alive map[string][]int // with the buckets that fell to them when last asked
}

// beat has an instance live on for a while, or leave, and returns what falls to it.
func (f *fleet) beat(instance string, alive time.Duration) []int {
	f.t.Helper()
	c := newCall(f.t.Context(), f.s.scripts.beat, []string{f.s.keys.live(f.sink), f.s.keys.plan(f.sink)},
		instance, alive.Milliseconds(), f.s.keys.buckets, f.s.keys.memberChannel(f.sink), 0)
	f.s.run(f.t.Context(), f.s.client, c)
	reply, err := c.StringSlice()
	if err != nil {
		f.t.Fatal(err)
	}
	return parsePlan(reply[0])
}

// change has an instance come or go, and returns how many buckets were to move.
func (f *fleet) change(instance string, comes bool) (moved int) {
	f.t.Helper()
	before := make(map[int]string)
	for name, numbers := range f.alive {
		for _, n := range numbers {
			before[n] = name
		}
	}
	if comes {
		f.beat(instance, time.Hour)
		f.alive[instance] = nil
	} else {
		if left := f.beat(instance, 0); len(left) > 0 {
			f.t.Errorf("%v fall to one who left", left)
		}
		delete(f.alive, instance)
	}
	owners := make(map[int]string)
	for name := range f.alive {
		f.alive[name] = f.beat(name, time.Hour)
		for _, n := range f.alive[name] {
			if other := owners[n]; other != "" {
				f.t.Fatalf("bucket %d falls to %s and %s", n, other, name)
			}
			if owners[n] = name; before[n] != "" && before[n] != name {
				moved++
			}
		}
	}
	if len(f.alive) > 0 && len(owners) != f.s.keys.buckets {
		f.t.Fatalf("%d of %d buckets fall to somebody", len(owners), f.s.keys.buckets)
	}
	return moved
}

// wantBalance fails if some instance has two buckets more than another.
func (f *fleet) wantBalance() {
	f.t.Helper()
	least, most := f.s.keys.buckets, 0
	for _, numbers := range f.alive {
		least, most = min(least, len(numbers)), max(most, len(numbers))
	}
	if most > least+1 {
		f.t.Fatalf("of %d instances one has %d buckets and another %d", len(f.alive), least, most)
	}
}

// TestPlanIsBalanced: with 1 to 40 instances that come and go in turn, none has two
// buckets more than another, and none moves but those of the one that comes or goes.
func TestPlanIsBalanced(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	for _, buckets := range []int{1, 2, 16, 100, 256, 1024} {
		s := open(t, Config{Addrs: []string{server.Addr()}, Prefix: fmt.Sprint("b", buckets), Buckets: buckets})
		f := &fleet{t, s, "orders", make(map[string][]int)}
		name := func(n int) string { return fmt.Sprint("host-", n*7919%1000) }
		for n := range 40 {
			moved := f.change(name(n), true)
			f.wantBalance()
			if got := len(f.alive[name(n)]); n > 0 && moved != got {
				t.Errorf("%d buckets: %d moved as one came that has %d", buckets, moved, got)
			}
		}
		for n := range 40 {
			leaving := name(n * 17 % 40)
			had := len(f.alive[leaving])
			if moved := f.change(leaving, false); n < 39 && moved != had {
				t.Errorf("%d buckets: %d moved as one went that had %d", buckets, moved, had)
			}
			f.wantBalance()
		}
		if left, err := s.client.Exists(t.Context(), s.keys.live("orders"), s.keys.plan("orders")).Result(); err != nil || left != 0 {
			t.Errorf("when all have gone, %d keys are left (%v)", left, err)
		}
	}
}

// TestRemaindersAreSpread: who has a bucket more than others is another one in each sink.
func TestRemaindersAreSpread(t *testing.T) {
	config := freshConfig(t)
	config.Buckets = 16
	s := open(t, config)
	counts := make(map[string]int)
	for sink := range 100 {
		f := &fleet{t, s, fmt.Sprint("sink", sink), make(map[string][]int)}
		for n := range 5 {
			f.change(fmt.Sprint("host-", n), true)
		}
		for name, numbers := range f.alive {
			counts[name] += len(numbers)
		}
	}
	for name, n := range counts {
		if n <= 300 || n > 360 { // 3 or 4 of each sink, 320 on average
			t.Errorf("%s has %d of 1600 buckets", name, n)
		}
	}
}

// TestPlanForgetsTheDead: what fell to an instance that is not heard of any more falls
// to the others, until it is back.
func TestPlanForgetsTheDead(t *testing.T) {
	s := open(t, freshConfig(t))
	f := &fleet{t, s, "orders", make(map[string][]int)}
	f.change("a", true)
	f.change("b", true)
	f.beat("a", time.Millisecond)
	until(t, "all fall to b", func() bool { return len(f.beat("b", time.Hour)) == 16 })
	if f.beat("a", time.Hour); len(f.beat("b", time.Hour)) != 8 {
		t.Error("a is back, and gets nothing")
	}
}

// TestInstancesHaveTheSameShare: also the real ones, of what they own.
func TestInstancesHaveTheSameShare(t *testing.T) {
	config := freshConfig(t)
	config.Lease = time.Minute
	stores := []*Store{open(t, config)}
	stores[0].config.Instance = "i0"
	for n := range 4 {
		stores = append(stores, second(t, stores[0], fmt.Sprint("i", n+1)))
	}
	for _, s := range stores {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Serve(ctx, "orders", idle)
		}()
		defer func() { stop(); <-ended }()
	}
	shares := func() (counts []int) {
		for _, s := range stores {
			counts = append(counts, len(s.owned.owns("orders")))
		}
		slices.Sort(counts)
		return counts
	}
	until(t, "each owns 3, and one 4", func() bool { return slices.Equal(shares(), []int{3, 3, 3, 3, 4}) })
}
