package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// telling opens an instance that tells what, and announces it.
func telling(t *testing.T, c Config, name, what string) *Store {
	t.Helper()
	s := named(t, c, name)
	if got := s.Announce(func() []byte { return []byte(what) }); got != name {
		t.Errorf("%s is called %s", name, got)
	}
	announceNow(t, s)
	return s
}

// told is what s knows of the instances: name, what it tells, and whether it does.
func told(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all, err := s.Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]string)
	for _, a := range all {
		if byName[a.Instance] = string(a.Report); a.Age < 0 && len(a.Report) > 0 || a.Age > time.Minute {
			t.Errorf("%s told %q for %s", a.Instance, a.Report, a.Age)
		}
	}
	return byName
}

func wantTold(t *testing.T, s *Store, want map[string]string) {
	t.Helper()
	if got := told(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told is %v, want %v", got, want)
	}
}

// TestInstanceThatDiesIsForgotten: by Redis's clock, with what it told, also if an
// instance of an earlier version, which does not know of that, forgets it.
func TestInstanceThatDiesIsForgotten(t *testing.T) {
	c := oneBucket(t)
	a := telling(t, c, "a", "one")
	b, d := telling(t, c, "b", "two"), telling(t, c, "d", "three")
	earlier := named(t, c, "earlier")
	wantTold(t, a, map[string]string{"a": "one", "b": "two", "d": "three", "earlier": ""})
	past := time.Now().Add(-time.Hour).UnixMilli()
	if err := a.client.HSet(t.Context(), a.keys.meta(), "reads:b", fmt.Sprintf("1 1 1 %d", past)).Err(); err != nil { // as time does
		t.Fatal(err)
	}
	wantTold(t, a, map[string]string{"a": "one", "d": "three", "earlier": ""})
	if n := a.client.HLen(t.Context(), a.keys.reports()).Val(); n != 3 {
		t.Errorf("%d reports are kept before anyone looks", n)
	}
	announceNow(t, a)
	if err := a.client.HDel(t.Context(), a.keys.meta(), "reads:d").Err(); err != nil { // as an earlier version does
		t.Fatal(err)
	}
	wantTold(t, a, map[string]string{"a": "one", "earlier": ""})
	earlier.Close()
	if fields := a.client.HKeys(t.Context(), a.keys.reports()).Val(); fmt.Sprint(fields) != "[a]" {
		t.Errorf("reports are kept of %v", fields)
	}
	announceNow(t, b) // it was not dead
	announceNow(t, d)
	wantTold(t, a, map[string]string{"a": "one", "b": "two", "d": "three"})
}

// TestInstancesOfOneName: the one that told last is the one that is seen.
func TestInstancesOfOneName(t *testing.T) {
	c := oneBucket(t)
	first, second := telling(t, c, "same", "one"), telling(t, c, "same", "two")
	wantTold(t, first, map[string]string{"same": "two"})
	announceNow(t, first)
	wantTold(t, second, map[string]string{"same": "one"})
	second.Close()
	wantTold(t, first, map[string]string{})
	announceNow(t, first)
	wantTold(t, first, map[string]string{"same": "one"})
}

// TestHundredInstances: what each costs is its report.
func TestHundredInstances(t *testing.T) {
	s := telling(t, oneBucket(t), "000", strings.Repeat("x", 600))
	for n := range 100 {
		if _, err := s.formatCall(t.Context(), s.client, fmt.Sprintf("%03d", n), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if got := told(t, s); len(got) != 100 || len(got["099"]) != 600 {
		t.Errorf("%d are told", len(got))
	}
	usage := s.client.MemoryUsage(t.Context(), s.keys.reports(), 0).Val()
	t.Logf("Redis: %d bytes for an instance of 600 bytes", usage/100)
	if usage > 100*1000 {
		t.Errorf("Redis has %d bytes for 100 instances", usage)
	}
}

// TestAnnouncedInAnOutage: what was told before is not shown as if it were now.
func TestAnnouncedInAnOutage(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{server.Addr()}, Instance: "a", Buckets: 1, timeout: 500 * time.Millisecond})
	s.Announce(func() []byte { return []byte("one") })
	announceNow(t, s)
	server.Pause()
	if all, err := s.Announced(t.Context()); err == nil {
		t.Errorf("with no Redis: %v", all)
	}
	if found, err := s.Timeline(t.Context(), core.TimelineQuery{Sinks: []string{"orders"}, From: time.Now(), To: time.Now().Add(time.Hour), Step: time.Hour}); err == nil {
		t.Errorf("with no Redis: %+v", found)
	}
	server.Resume()
	until(t, "it is listed with its age", func() bool {
		all, err := s.Announced(t.Context())
		return err == nil && len(all) == 1 && all[0].Age >= 500*time.Millisecond
	})
}

// TestAnnouncingCostsNoCall: an idle instance announces itself with what it tells as often
// as it did without: once in five seconds, and not in the calls of callers.
func TestAnnouncingCostsNoCall(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := open(t, Config{Addrs: []string{server.Addr()}, Instance: "a", Buckets: 1})
	s.Announce(func() []byte { return []byte("one") })
	ran := &tally{calls: make(map[string]int), keys: make(map[string]int)}
	s.client.AddHook(ran)
	s.keeping.AddHook(ran)
	stop := serveMany(s, 3, func(ctx context.Context, _ core.Bucket) error { <-ctx.Done(); return nil })
	until(t, "it is announced", func() bool { return ran.of(s.scripts.format) == 1 })
	began := time.Now()
	until(t, "it is announced again", func() bool { return ran.of(s.scripts.format) == 3 })
	if took := time.Since(began); took < 2*formatsEvery-time.Second {
		t.Errorf("announced twice in %s", took)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestTimelineIsBounded: the store refuses what would keep Redis busy for long.
func TestTimelineIsBounded(t *testing.T) {
	c := freshConfig(t)
	c.Buckets = core.MaxBuckets
	s := open(t, c)
	query := core.TimelineQuery{Sinks: []string{"orders"}, From: time.Now(), Step: time.Second}
	query.To = query.From.Add(64 * time.Second)
	if found, err := s.Timeline(t.Context(), query); err != nil || len(found.Due) != 64 {
		t.Errorf("%+v, %v", found, err)
	}
	query.To = query.To.Add(time.Second)
	_, err := s.Timeline(t.Context(), query)
	if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "step" {
		t.Errorf("65 steps of %d buckets: %v", core.MaxBuckets, err)
	}
}
