package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// link is a network between a store and Redis that can hold up one request. What it
// holds reaches Redis when the test says so, also if the client has gone by then.
type link struct {
	to      string
	what    atomic.Pointer[string] // the next request that has this is held up
	held    chan struct{}
	release chan struct{}
	arrived chan struct{} // what was held up has been run
}

func newLink(t *testing.T, to string) (l *link, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l = &link{to: to, held: make(chan struct{}, 1), release: make(chan struct{}), arrived: make(chan struct{}, 1)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(conn)
		}
	}()
	return l, listener.Addr().String()
}

func (l *link) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	replied := make(chan struct{})
	go func() {
		defer close(replied)
		io.Copy(client, server)
		io.Copy(io.Discard, server) // the client has gone
	}()
	buffer, wasHeld := make([]byte, 1<<16), false
	for {
		n, err := client.Read(buffer)
		if what := l.what.Load(); what != nil && bytes.Contains(buffer[:n], []byte(*what)) && l.what.CompareAndSwap(what, nil) {
			wasHeld = true
			l.held <- struct{}{}
			<-l.release
		}
		server.Write(buffer[:n])
		if err != nil {
			server.(*net.TCPConn).CloseWrite()
			<-replied
			if wasHeld {
				l.arrived <- struct{}{}
			}
			return
		}
	}
}

// hold holds up the next request that runs s.
func (l *link) hold(s *script) { l.what.Store(&s.sha) }

// lateRig is a store behind a link, and another that is not.
type lateRig struct {
	far, near *Store
	link      *link
	bucket    *bucket // of near
}

func newLateRig(t *testing.T, redis *servers.RedisServer, c Config) *lateRig {
	t.Helper()
	c.Addrs, c.Prefix, c.Buckets = []string{redis.Addr()}, fmt.Sprintf("t%d", prefixes.Add(1)), 1
	r := &lateRig{near: open(t, c)}
	r.bucket = ownByHand(t, r.near)
	var addr string
	r.link, addr = newLink(t, c.Addrs[0])
	c.Addrs = []string{addr}
	r.far = open(t, c)
	return r
}

func (r *lateRig) mustPark(t *testing.T, m *core.Message) {
	t.Helper()
	if receipt := r.near.Park(t.Context(), m)[0]; receipt.Err != nil {
		t.Fatal(receipt.Err)
	}
}

// dueMessage makes a message that is due in the millisecond in which it is parked.
func dueMessage(id string) *core.Message {
	return &core.Message{ID: id, Sink: "orders", Topic: "t", DeliverAt: time.Now().Add(-time.Second)}
}

// mustBury makes a dead letter.
func (r *lateRig) mustBury(t *testing.T, id string) {
	t.Helper()
	r.mustPark(t, dueMessage(id))
	r.mustDie(t, id)
}

// mustDie makes the one message that is due a dead letter.
func (r *lateRig) mustDie(t *testing.T, id string) {
	t.Helper()
	takeOne(t, r.bucket, id)
	if err := r.bucket.Settle(t.Context(), core.Outcome{ID: id, State: core.Dead, Attempts: 1, Reason: "permanent"}); err != nil {
		t.Fatal(err)
	}
}

// content is all that Redis holds of the bucket and of the members, but for the
// moments at which leases end.
func (r *lateRig) content(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range append(r.near.keys.bucket("orders", 0), r.near.keys.live("orders"), r.near.keys.plan("orders")) {
		if value, err := r.near.client.Dump(t.Context(), key).Result(); err == nil {
			all[key] = value
		} else if err != redis.Nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestLateCallHasNoEffect: a call that was given up, and answered as unknown, can
// still reach Redis. Nothing changes then.
func TestLateCallHasNoEffect(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	ref, hour := core.Ref{ID: "m", Sink: "orders"}, core.When{After: time.Hour}
	waiting := func(t *testing.T, r *lateRig) {
		r.mustPark(t, &core.Message{ID: "m", Sink: "orders", Topic: "t", Delay: time.Minute})
	}
	dead := func(t *testing.T, r *lateRig) { r.mustBury(t, "m") }
	taken := func(t *testing.T, r *lateRig) {
		r.mustPark(t, dueMessage("m"))
		takeOne(t, r.bucket, "m")
	}
	park := func(m core.Message) func(context.Context, *lateRig) error {
		return func(ctx context.Context, r *lateRig) error { return r.far.Park(ctx, &m)[0].Err }
	}
	change := func(do func(*Store, context.Context) (core.Receipt, error)) func(context.Context, *lateRig) error {
		return func(ctx context.Context, r *lateRig) error {
			_, err := do(r.far, ctx)
			return err
		}
	}
	// asOwner is the owner's bucket as far sees it.
	asOwner := func(r *lateRig) *bucket {
		b := *r.bucket
		b.store = r.far
		return &b
	}
	run := func(make func(context.Context, *lateRig) call) func(context.Context, *lateRig) error {
		return func(ctx context.Context, r *lateRig) error {
			c := make(ctx, r)
			r.far.run(ctx, r.far.client, c)
			return fault("run", c.Err())
		}
	}
	for _, row := range []struct {
		name   string
		script func(*scripts) *script
		before func(*testing.T, *lateRig)
		call   func(context.Context, *lateRig) error
	}{
		{"park, generated id", func(s *scripts) *script { return s.park }, nil,
			park(core.Message{Generated: true, Sink: "orders", Topic: "t", Delay: time.Minute})},
		{"park, producer's id", func(s *scripts) *script { return s.park }, nil,
			park(core.Message{ID: "m", Sink: "orders", Topic: "t", Delay: time.Minute})},
		{"cancel", func(s *scripts) *script { return s.cancel }, waiting,
			change(func(s *Store, ctx context.Context) (core.Receipt, error) { return s.Cancel(ctx, ref) })},
		{"reschedule", func(s *scripts) *script { return s.reschedule }, waiting,
			change(func(s *Store, ctx context.Context) (core.Receipt, error) { return s.Reschedule(ctx, ref, hour) })},
		{"redrive", func(s *scripts) *script { return s.redrive }, dead,
			change(func(s *Store, ctx context.Context) (core.Receipt, error) { return s.Redrive(ctx, ref) })},
		{"discard", func(s *scripts) *script { return s.discard }, dead,
			change(func(s *Store, ctx context.Context) (core.Receipt, error) { return s.Discard(ctx, ref) })},
		{"take", func(s *scripts) *script { return s.take },
			func(t *testing.T, r *lateRig) { r.mustPark(t, dueMessage("m")) },
			func(ctx context.Context, r *lateRig) error { _, err := asOwner(r).Take(ctx, 1); return err }},
		{"settle", func(s *scripts) *script { return s.settle }, taken,
			func(ctx context.Context, r *lateRig) error {
				return asOwner(r).Settle(ctx, core.Outcome{ID: "m", State: core.Delivered})
			}},
		{"own", func(s *scripts) *script { return s.own }, taken,
			run(func(ctx context.Context, r *lateRig) call { return r.far.ownCall(ctx, "orders", 0, r.bucket.token) })},
		{"renew", func(s *scripts) *script { return s.renew }, nil, run(func(ctx context.Context, r *lateRig) call {
			return newCall(ctx, r.far.scripts.renew, r.bucket.keys[:1], time.Hour.Milliseconds(), r.bucket.token)
		})},
		{"release", func(s *scripts) *script { return s.release }, nil, run(func(ctx context.Context, r *lateRig) call {
			return newCall(ctx, r.far.scripts.release, r.bucket.keys, r.bucket.token)
		})},
		{"beat", func(s *scripts) *script { return s.beat }, nil,
			run(func(ctx context.Context, r *lateRig) call {
				keys := r.far.keys
				return newCall(ctx, r.far.scripts.beat, []string{keys.live("orders"), keys.plan("orders")},
					"late", time.Hour.Milliseconds(), 1, keys.memberChannel("orders"), 0)
			})},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newLateRig(t, redis, Config{Lease: time.Hour})
			if row.before != nil {
				row.before(t, r)
			}
			r.far.config.timeout = commandTimeout
			before := r.content(t)
			r.link.hold(row.script(r.far.scripts))
			if err := row.call(t.Context(), r); !errors.Is(err, core.ErrUnknown) {
				t.Fatalf("held up: %v, want %v", err, core.ErrUnknown)
			}
			<-r.link.held
			r.far.Close() // so that the link sees the end of its connection
			close(r.link.release)
			<-r.link.arrived
			if after := r.content(t); !maps.Equal(before, after) {
				t.Errorf("the late call has changed something:\n%q\n%q", before, after)
			}
		})
	}
}

// TestOvertakenCallUndoesNothing: a call that is slow, and not given up yet, meets what
// others have done since it was sent.
func TestOvertakenCallUndoesNothing(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	message := func() *core.Message { return &core.Message{ID: "m", Sink: "orders", Topic: "t", Delay: time.Minute} }
	ref := core.Ref{ID: "m", Sink: "orders"}
	t.Run("park after cancel", func(t *testing.T) {
		t.Parallel()
		r := newLateRig(t, redis, Config{})
		slow := make(chan core.Receipt)
		r.link.hold(r.far.scripts.park)
		go func() { slow <- r.far.Park(t.Context(), message())[0] }()
		<-r.link.held
		r.mustPark(t, message())
		if _, err := r.near.Cancel(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		close(r.link.release)
		if receipt := <-slow; !errors.Is(receipt.Err, core.ErrCancelled) {
			t.Errorf("slow park: %+v, want %v", receipt, core.ErrCancelled)
		}
		wantPlace(t, r.near, "m", core.Cancelled)
	})
	t.Run("park after reschedule", func(t *testing.T) {
		t.Parallel()
		r := newLateRig(t, redis, Config{})
		slow := make(chan core.Receipt)
		r.link.hold(r.far.scripts.park)
		go func() { slow <- r.far.Park(t.Context(), message())[0] }()
		<-r.link.held
		r.mustPark(t, message())
		moved, err := r.near.Reschedule(t.Context(), ref, core.When{After: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		close(r.link.release)
		if receipt := <-slow; receipt.Err != nil || !receipt.Duplicate || !receipt.DeliverAt.Equal(moved.DeliverAt) {
			t.Errorf("slow park: %+v, want a duplicate that is due at %s", receipt, moved.DeliverAt)
		}
	})
	for name, do := range map[string]func(ctx context.Context, s *Store) error{
		"reschedule": func(ctx context.Context, s *Store) error {
			_, err := s.Reschedule(ctx, ref, core.When{After: 2 * time.Hour})
			return err
		},
		"cancel": func(ctx context.Context, s *Store) error {
			_, err := s.Cancel(ctx, ref)
			return err
		},
	} {
		t.Run(name+" after reschedule", func(t *testing.T) {
			t.Parallel()
			r := newLateRig(t, redis, Config{})
			r.mustPark(t, message())
			slow := make(chan error)
			ctx, giveUp := context.WithCancel(t.Context())
			r.link.hold(map[string]*script{"reschedule": r.far.scripts.reschedule, "cancel": r.far.scripts.cancel}[name])
			go func() { slow <- do(ctx, r.far) }()
			<-r.link.held
			giveUp()
			moved, err := r.near.Reschedule(t.Context(), ref, core.When{After: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			close(r.link.release)
			if err := <-slow; !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("slow call: %v, want %v", err, core.ErrUnavailable)
			}
			if entry, err := r.near.Get(t.Context(), ref); err != nil || !entry.Due.Equal(moved.DeliverAt) {
				t.Errorf("due at %s, %v; want %s", entry.Due, err, moved.DeliverAt)
			}
		})
	}
}

// TestOvertakenCallAboutADeadLetter: what died, was redriven and died again is not the
// dead letter that a slow call has seen, whose caller has gone.
func TestOvertakenCallAboutADeadLetter(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	ref := core.Ref{ID: "m", Sink: "orders"}
	for name, do := range map[string]func(context.Context, *Store) error{
		"redrive": func(ctx context.Context, s *Store) error { _, err := s.Redrive(ctx, ref); return err },
		"discard": func(ctx context.Context, s *Store) error { _, err := s.Discard(ctx, ref); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLateRig(t, redis, Config{Lease: time.Hour})
			r.mustBury(t, "m")
			slow := make(chan error)
			ctx, giveUp := context.WithCancel(t.Context())
			r.link.hold(map[string]*script{"redrive": r.far.scripts.redrive, "discard": r.far.scripts.discard}[name])
			go func() { slow <- do(ctx, r.far) }()
			<-r.link.held
			giveUp()
			if _, err := r.near.Redrive(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			r.mustDie(t, "m")
			before := r.content(t)
			close(r.link.release)
			if err := <-slow; !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("slow call: %v, want %v", err, core.ErrUnavailable)
			}
			if after := r.content(t); !maps.Equal(before, after) {
				t.Errorf("the slow call has changed something:\n%q\n%q", before, after)
			}
		})
	}
}

// TestClockThatIsWrong: a call is sent again if it only seemed late, or was sent by a
// clock that was ahead, as after a failover to a server whose clock is behind.
func TestClockThatIsWrong(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		s := open(t, freshConfig(t))
		clock := s.clocks.of(t.Context(), s.client, s.keys.owner("orders", 0))
		now := time.Now()
		clock.mu.Lock()
		clock.at = time.Time{}
		clock.mu.Unlock()
		clock.observe(now.Add(off), now, now)
		if r := s.Park(t.Context(), &core.Message{Generated: true, Sink: "orders", Topic: "t", Delay: time.Hour})[0]; r.Err != nil {
			t.Errorf("clock that is off by %s: %v", off, r.Err)
		}
		clock.mu.Lock()
		low, high := clock.bounds(time.Now())
		clock.mu.Unlock()
		if low.After(time.Now().Add(time.Minute)) || high.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("clock that was off by %s is now between %s and %s", off, low, high)
		}
	}
}

// TestServerClock: the bounds hold whatever was observed before, and get closer.
func TestServerClock(t *testing.T) {
	t0 := time.Now()
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	var c serverClock
	if c.earliest() != 0 {
		t.Error("a clock of which nothing is known has a time")
	}
	check := func(what string, now time.Time, low, high time.Duration) {
		t.Helper()
		gotLow, gotHigh := c.bounds(now)
		const close = 10 * time.Microsecond
		if (gotLow.Sub(now)-low).Abs() > close || (gotHigh.Sub(now)-high).Abs() > close {
			t.Errorf("%s: ahead by %s to %s, want %s to %s", what, gotLow.Sub(now), gotHigh.Sub(now), low, high)
		}
	}
	const ms = time.Millisecond
	c.observe(at(1000), at(0), at(10)) // the server's clock is ahead by 990 to 1000 ms
	check("first", at(10), 990*ms, 1000*ms)
	c.observe(at(1013), at(10), at(20)) // 993 to 1003
	check("closer", at(20), 993*ms, 1000*ms)
	check("later", at(2020), 992*ms, 1001*ms)
	c.observe(at(2100), at(2030), at(2040)) // 60 to 70: it was set
	check("set back", at(2040), 60*ms, 70*ms)
	c.observe(at(9000), at(2050), at(2060))
	check("set ahead", at(2060), 6940*ms, 6950*ms)
}
