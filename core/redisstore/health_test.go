package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestRefusesWhatWouldLoseMessages(t *testing.T) {
	for _, test := range []struct {
		name    string
		options servers.RedisOptions
		edit    func(*Config)
		want    string // empty: opens
		level   string
	}{
		{"every second", servers.RedisOptions{}, nil, "", DurabilityMemory},
		{"always", servers.RedisOptions{AOF: servers.AOFAlways}, nil, "", DurabilityFsync},
		{"no append-only file", servers.RedisOptions{AOF: servers.AOFOff}, nil, "allow_volatile", ""},
		{"no append-only file, allowed", servers.RedisOptions{AOF: servers.AOFOff}, func(c *Config) { c.AllowVolatile = true }, "", DurabilityMemory},
		{"evicting", servers.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}}, nil, "set it to noeviction", ""},
		{"evicting only what may expire", servers.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"}}, nil, "", DurabilityMemory},
		{"fsync that it can't give", servers.RedisOptions{AOF: servers.AOFOff},
			func(c *Config) { c.Durability, c.AllowVolatile = DurabilityFsync, true }, "choose another level", ""},
		{"replicas that it has not", servers.RedisOptions{}, func(c *Config) { c.Durability = DurabilityReplicated }, "0 are connected", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			redis := servers.Redis(t, test.options)
			config := Config{Addrs: []string{redis.Addr()}, timeout: testTimeout}
			if test.edit != nil {
				test.edit(&config)
			}
			s, err := Open(t.Context(), config)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("got %v, want an error with %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if s.Durability() != test.level {
				t.Errorf("durability is %s, want %s", s.Durability(), test.level)
			}
			if err := s.Health(t.Context()); err != nil {
				t.Errorf("health: %v", err)
			}
		})
	}
}

// However strong WAITAOF is, it waits for the next flush by the timer.
func TestAutoChoosesWhatNeedsNoTimer(t *testing.T) {
	for _, test := range []struct {
		health health
		want   string
	}{
		{health{aof: true, always: true, waitAOF: true}, DurabilityFsync},
		{health{aof: true, always: true, replicas: 1}, DurabilityFsync},
		{health{aof: true, lazy: true, waitAOF: true}, DurabilityMemory},
		{health{aof: true, lazy: true, waitAOF: true, replicas: 1}, DurabilityReplicated},
		{health{aof: true, waitAOF: true}, DurabilityMemory}, // CONFIG GET is refused
		{health{aof: true, waitAOF: true, replicas: 1}, DurabilityReplicated},
		{health{always: true, waitAOF: true}, DurabilityMemory},
	} {
		d, err := (Config{Addrs: []string{"x"}}).withDefaults().choose(test.health)
		if err != nil || d.level != test.want || d.waitAOF {
			t.Errorf("%+v: %+v, %v; want %s", test.health, d, err, test.want)
		}
	}
	d, err := (Config{Durability: DurabilityFsync}).withDefaults().choose(health{aof: true, lazy: true, waitAOF: true})
	if err != nil || !d.waitAOF {
		t.Errorf("fsync by name: %+v, %v; want WAITAOF", d, err)
	}
	if _, err := (Config{Durability: DurabilityFsync}).withDefaults().choose(health{aof: true, lazy: true}); err == nil {
		t.Error("fsync by name is chosen on a Redis that can't give it")
	}
}

// A user who may not read appendfsync gets no level that rests on it, and is told.
func TestAutoWithoutTheRightToReadTheConfiguration(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFAlways})
	rules := slices.DeleteFunc(documentedUser(t, "~delaybridge:*"), func(word string) bool { return word == "+config|get" })
	makeUser(t, server, rules)
	var log strings.Builder
	config := asUser(Config{Addrs: []string{server.Addr()}})
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, config)
	if s.Durability() != DurabilityMemory || !strings.Contains(log.String(), "appendfsync") {
		t.Errorf("durability is %s; the log says %q", s.Durability(), log.String())
	}
}

func TestPolicyThatTurnsUnsafeShowsInHealth(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{redis.Addr()}})
	redis.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	if err := s.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "allkeys-random") {
		t.Errorf("health is %v, want an error that names the policy", err)
	}
}

func TestNothingIsAcceptedWhileRedisMayEvict(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		t.Run(fmt.Sprintf("allow_volatile %t", volatile), func(t *testing.T) {
			redis := servers.Redis(t, servers.RedisOptions{})
			s := open(t, Config{Addrs: []string{redis.Addr()}, AllowVolatile: volatile})
			s.lookEvery = 0 // looks again with each batch
			park := func(id string, delay time.Duration) error {
				return s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: delay})[0].Err
			}
			if err := park("before", 0); err != nil {
				t.Fatal(err)
			}
			redis.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			err := park("while", time.Hour)
			if volatile != (err == nil) || err != nil && (!errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "allkeys-lru")) {
				t.Errorf("park is %v", err)
			}
			if _, err := s.Get(t.Context(), core.Ref{ID: "while", Sink: "orders"}); volatile != (err == nil) {
				t.Errorf("get of what was parked: %v", err)
			}
			// What is there goes out all the same.
			sink := newCollector(1)
			stop := serve(t, s, sink, core.RetryPolicy{})
			sink.await(t)
			stop()
			redis.MustDo("CONFIG", "SET", "maxmemory-policy", "noeviction")
			if err := park("after", time.Hour); err != nil {
				t.Errorf("park on a Redis that is safe again: %v", err)
			}
		})
	}
}

// A promise that Redis does not keep any more is not made any more, whatever
// else is allowed.
func TestNothingIsAcceptedAtALevelThatIsGone(t *testing.T) {
	for name, change := range map[string][3]string{"sync": {"appendfsync", "everysec", "always"}, "file": {"appendonly", "no", "yes"}} {
		t.Run(name, func(t *testing.T) {
			redis := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFAlways})
			s := open(t, Config{Addrs: []string{redis.Addr()}, AllowVolatile: true, Durability: DurabilityFsync})
			s.lookEvery = 0
			park := func(id string) error {
				return s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: time.Hour})[0].Err
			}
			if err := park("before"); err != nil {
				t.Fatal(err)
			}
			redis.MustDo("CONFIG", "SET", change[0], change[1])
			holds := s.durable.waitAOF && change[0] == "appendfsync" // WAITAOF waits for the disk whatever appendfsync is
			if err := park("while"); holds != (err == nil) || err != nil && (!errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), change[0])) {
				t.Errorf("park is %v", err)
			}
			if err := s.Health(t.Context()); holds != (err == nil) {
				t.Errorf("health is %v", err)
			}
			redis.MustDo("CONFIG", "SET", change[0], change[2])
			if err := park("after"); err != nil {
				t.Errorf("park on a Redis that is as it was: %v", err)
			}
		})
	}
}

func TestPolicyIsLookedAtFromTimeToTime(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{redis.Addr()}})
	s.lookEvery = time.Minute // however long the parks take
	park := func(id string) error {
		return s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: time.Hour})[0].Err
	}
	looks := func() int {
		info, _ := redis.MustDo("INFO", "commandstats").(string)
		calls := 0
		_, _ = fmt.Sscanf(parseInfo(info)["cmdstat_info"], "calls=%d", &calls)
		return calls
	}
	looks() // which counts itself from now on
	before := looks()
	for n := range 50 {
		if err := park(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if after := looks(); after != before+1 {
		t.Errorf("%d parks have looked %d times at a Redis that was looked at when it was opened", 50, after-before-1)
	}
	redis.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if err := s.Health(t.Context()); err == nil {
		t.Fatal("healthy with allkeys-lru")
	}
	if err := park("after a look"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("park after health has seen it: %v", err)
	}
}

func TestFormatAndBucketsMustAgree(t *testing.T) {
	redis := servers.SharedRedis(t)
	config := freshConfig(t)
	config.Buckets, config.timeout = 4, testTimeout
	open(t, config)

	same := config
	same.Buckets = 0
	if s := open(t, same); s.keys.buckets != 4 {
		t.Errorf("an instance that does not say has %d buckets, want the 4 recorded", s.keys.buckets)
	}
	other := config
	other.Buckets = 8
	if _, err := Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "set buckets to 4") {
		t.Errorf("other number of buckets: %v", err)
	}
	redis.MustDo("HSET", config.Prefix+":meta", "format", "2")
	if _, err := Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "has format 2") {
		t.Errorf("other format: %v", err)
	}
}

func TestReplicatedMeansThatReplicasHaveIt(t *testing.T) {
	master := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master})
	s := open(t, Config{Addrs: []string{master.Addr()}, DurabilityTimeout: time.Minute})
	impatient := open(t, Config{Addrs: []string{master.Addr()}, DurabilityTimeout: 300 * time.Millisecond})
	if s.Durability() != DurabilityReplicated {
		t.Fatalf("auto chose %s with a replica connected", s.Durability())
	}
	m := &core.Message{ID: "a", Sink: "orders", Topic: "t", Delay: time.Hour}
	if r := s.Park(t.Context(), m)[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	replica.Pause()
	// Also a repeat must not count as accepted on the master's word alone.
	for _, id := range []string{"a", "b"} {
		m := &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: time.Hour}
		if r := impatient.Park(t.Context(), m)[0]; !errors.Is(r.Err, core.ErrUnknown) {
			t.Errorf("park %s with the replica unreachable: %+v, want unknown", id, r)
		}
	}
	if _, err := impatient.Cancel(t.Context(), core.Ref{ID: "a", Sink: "orders"}); !errors.Is(err, core.ErrUnknown) {
		t.Errorf("cancel with the replica unreachable: %v, want unknown", err)
	}
	replica.Resume()
	m.ID = "b"
	for deadline := time.Now().Add(time.Minute); ; {
		r := s.Park(t.Context(), m)[0]
		if r.Err == nil && r.Duplicate {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("repeat after the replica is back: %+v", r)
		}
	}
}

func TestFullRedisRefusesAndStillDrains(t *testing.T) {
	refusesAndStillDrains(t, servers.Redis(t, servers.RedisOptions{}))
}

func TestFullRedis62RefusesAndStillDrains(t *testing.T) {
	refusesAndStillDrains(t, servers.Redis(t, servers.RedisOptions{Program: servers.Redis62(t)}))
}

func refusesAndStillDrains(t *testing.T, redis *servers.RedisServer) {
	t.Helper()
	s := open(t, Config{Addrs: []string{redis.Addr()}, Lease: time.Second, DedupeWindow: time.Minute})
	const n = 2000
	messages := make([]*core.Message, n)
	for i := range messages {
		messages[i] = &core.Message{ID: strings.Repeat("x", i%50) + "-" + time.Duration(i).String(), Sink: "orders", Topic: "t", Body: make([]byte, 1000)}
	}
	for _, r := range s.Park(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	redis.MustDo("CONFIG", "SET", "maxmemory", "1mb")
	r := s.Park(t.Context(), &core.Message{ID: "more", Sink: "orders", Topic: "t"})[0]
	if !errors.Is(r.Err, core.ErrFull) || !errors.Is(r.Err, core.ErrUnavailable) {
		t.Fatalf("park on a full Redis: %v, want full", r.Err)
	}
	// A first try that fails must be settled on a full Redis, too.
	sink := newCollector(n)
	sink.failFirst = true
	stop := serve(t, s, sink, core.RetryPolicy{Initial: time.Millisecond})
	sink.await(t)
	stop()
	redis.MustDo("CONFIG", "SET", "maxmemory", "0")
	if _, err := s.Get(t.Context(), core.Ref{ID: "more", Sink: "orders"}); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("the refused message: %v, want not found", err)
	}
}

func TestDamagedRecordIsADeadLetterAndHoldsUpNobody(t *testing.T) {
	redis := servers.SharedRedis(t)
	config := freshConfig(t)
	config.Buckets = 1
	s := open(t, config)
	for _, id := range []string{"bad", "gone", "good"} {
		if r := s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t"})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	msg := s.keys.bucket("orders", 0)[1]
	stored, _ := redis.MustDo("HGET", msg, "bad").(string)
	redis.MustDo("HSET", msg, "bad", "\x00"+stored[1:])
	redis.MustDo("HDEL", msg, "gone")
	sink := newCollector(1)
	stop := serve(t, s, sink, core.RetryPolicy{})
	sink.await(t)
	stop()
	e, err := s.Get(t.Context(), core.Ref{ID: "bad", Sink: "orders"})
	if err != nil || e.State != core.Dead || e.Reason != "damaged" {
		t.Errorf("the damaged message is %+v (%v), want a dead letter", e, err)
	}
	page, err := s.List(t.Context(), core.Query{Sinks: []string{"orders"}, States: []core.State{core.Dead}, Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Message.ID != "bad" {
		t.Errorf("dead letters are %+v (%v), want the damaged one", page.Entries, err)
	}
	if stats, err := s.Stats(t.Context(), "orders"); err != nil || stats[0].Scheduled != 0 {
		t.Errorf("stats are %+v (%v), want nothing left", stats, err)
	}
}

func TestLargeBodiesMakeSmallBatches(t *testing.T) {
	config := freshConfig(t)
	config.Buckets, config.Lease = 1, time.Hour // nobody renews it here
	s := open(t, config)
	messages := make([]*core.Message, 500)
	for n := range messages {
		messages[n] = &core.Message{Generated: true, Sink: "orders", Topic: "t", Body: make([]byte, 200<<10), Priority: n % 3,
			DeliverAt: time.Now().Add(-time.Second)}
	}
	for _, r := range s.Park(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	b := ownByHand(t, s)
	for left := 500; left > 0; {
		batch, err := b.Take(t.Context(), 500)
		if err != nil || len(batch.Messages) == 0 || len(batch.Messages) > 100 {
			t.Fatalf("a take of %d messages of 200 KiB (%v), want up to 100", len(batch.Messages), err)
		}
		outcomes := make([]core.Outcome, len(batch.Messages))
		for n, m := range batch.Messages {
			outcomes[n] = core.Outcome{ID: m.ID, State: core.Delivered}
		}
		if err := b.Settle(t.Context(), outcomes...); err != nil {
			t.Fatal(err)
		}
		left -= len(batch.Messages)
	}
}

func TestRestartOfRedisIsSurvived(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFAlways})
	s := open(t, Config{Addrs: []string{redis.Addr()}, Lease: 2 * time.Second})
	const n = 400
	sink := newCollector(n)
	stop := serve(t, s, sink, core.RetryPolicy{})
	accepted := 0
	for i := range 2 * n {
		if i == n/2 {
			redis.Kill()
			redis.Start()
		}
		m := &core.Message{ID: time.Duration(i).String(), Sink: "orders", Topic: "t", Delay: 10 * time.Millisecond}
		r := s.Park(t.Context(), m)[0]
		if r.Err == nil {
			accepted++
		}
		if accepted == n {
			break
		}
	}
	if accepted < n {
		t.Fatalf("%d of %d accepted around a restart", accepted, n)
	}
	sink.await(t)
	stop()
}
