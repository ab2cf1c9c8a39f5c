package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// newVersion opens an instance that knows the test format, on the store of c.
func newVersion(t *testing.T, c Config, name string) *Store {
	t.Helper()
	c.newest, c.Instance = testFormat, name
	return open(t, c)
}

// named opens an instance of this version.
func named(t *testing.T, c Config, name string) *Store {
	t.Helper()
	c.newest, c.Instance = recordFormat, name
	return open(t, c)
}

// announceNow has s announce its formats, as it does every few seconds.
func announceNow(t *testing.T, s *Store) *Formats {
	t.Helper()
	f, err := s.announceFormats(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// storedFormat is the format of the record with id a in the only bucket.
func storedFormat(t *testing.T, s *Store, id string) int {
	t.Helper()
	record, err := s.client.HGet(t.Context(), s.keys.bucket("orders", 0)[1], id).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(record[0])
}

func park(t *testing.T, s *Store, m *core.Message) core.Receipt {
	t.Helper()
	m.Sink, m.Topic = "orders", "t"
	r := s.Park(t.Context(), m)[0]
	if r.Err != nil {
		t.Fatalf("park %s: %v", r.ID, r.Err)
	}
	return r
}

// oneBucket is a store of its own with one bucket a sink.
func oneBucket(t *testing.T) Config {
	c := freshConfig(t)
	c.Buckets, c.Lease, c.Guard = 1, time.Minute, 200*time.Millisecond
	return c
}

// TestNewestThatAllRead: the fleet writes a newer format when the last instance that
// does not read it has gone, and not before; the old one can't come back then.
func TestNewestThatAllRead(t *testing.T) {
	c := oneBucket(t)
	old, first := named(t, c, "old"), newVersion(t, c, "first")
	second := newVersion(t, c, "second")
	for _, s := range []*Store{old, first, second} {
		if f := announceNow(t, s); f.Writes != 1 {
			t.Errorf("%s writes format %d beside one that reads 1 only", s.config.Instance, f.Writes)
		}
	}
	park(t, first, &core.Message{ID: "before", Delay: time.Hour})
	old.Close()
	for _, s := range []*Store{first, second} {
		if f := announceNow(t, s); f.Writes != 2 || len(f.Instances) != 2 {
			t.Errorf("%s writes format %d with %v", s.config.Instance, f.Writes, f.Instances)
		}
	}
	park(t, first, &core.Message{ID: "after", Delay: time.Hour, Key: []byte("k"), Body: []byte("body")})
	park(t, first, &core.Message{Generated: true, Delay: time.Hour})
	if before, after := storedFormat(t, first, "before"), storedFormat(t, first, "after"); before != 1 || after != 2 {
		t.Errorf("parked before in format %d, after in %d", before, after)
	}
	e, err := second.Get(t.Context(), core.Ref{ID: "after", Sink: "orders"})
	if err != nil || e.Error != "" || string(e.Message.Body) != "body" || e.BodySize != 4 {
		t.Errorf("read as %+v, %v", e, err)
	}
	c.newest, c.timeout = recordFormat, testTimeout
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "has format 2") || !strings.Contains(err.Error(), "--pin 1") {
		t.Errorf("an old instance started: %v", err)
	}
	if f := announceNow(t, first); len(f.Instances) != 2 {
		t.Errorf("one that was refused counts: %v", f.Instances)
	}
}

// TestForgottenInstanceMustNotWrite: one that accepted nothing for so long that it
// counts no more learns what is written before it writes.
func TestForgottenInstanceMustNotWrite(t *testing.T) {
	c := oneBucket(t)
	old := named(t, c, "old")
	if err := old.client.HDel(t.Context(), old.keys.meta(), "reads:old").Err(); err != nil { // as time does
		t.Fatal(err)
	}
	next := newVersion(t, c, "new")
	park(t, next, &core.Message{ID: "a", Delay: time.Hour})
	longAgo(old)
	r := old.Park(t.Context(), &core.Message{ID: "b", Sink: "orders", Topic: "t", Delay: time.Hour})[0]
	if !errors.Is(r.Err, core.ErrUnavailable) || !strings.Contains(r.Err.Error(), "format 2") {
		t.Errorf("parked in an old format: %+v", r)
	}
	if err := old.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("it is healthy: %v", err)
	}
	// Nor must a pin be missed by one that knew of none.
	if err := PinFormat(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	longAgo(next)
	longAgo(old)
	park(t, next, &core.Message{ID: "c", Delay: time.Hour})
	if got := storedFormat(t, next, "c"); got != 1 {
		t.Errorf("written in format %d, and 1 is pinned", got)
	}
	park(t, old, &core.Message{ID: "d", Delay: time.Hour})
}

// longAgo has the last announcement of a store be old.
func longAgo(s *Store) {
	s.formats.tried, s.formats.seen.Load().heard = time.Time{}, time.Time{}
}

// TestPin: a pin bounds what is written, the old version can start, and what is
// written rises again only after the pin has gone and the old version, too.
func TestPin(t *testing.T) {
	c := oneBucket(t)
	next := newVersion(t, c, "new")
	for _, step := range []struct {
		pin, writes int
	}{{1, 1}, {0, 2}, {3, 2}, {1, 1}} {
		if err := PinFormat(t.Context(), c, step.pin); err != nil {
			t.Fatal(err)
		}
		if f := announceNow(t, next); f.Writes != step.writes || f.Pin != step.pin || f.Newest != 2 {
			t.Errorf("with pin %d: %+v", step.pin, f)
		}
	}
	old := named(t, c, "old")
	if err := PinFormat(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{next, old} {
		if f := announceNow(t, s); f.Writes != 1 || !f.able {
			t.Errorf("unpinned beside an old instance: %+v", f)
		}
	}
	f, err := ReadFormats(t.Context(), c)
	if err != nil || f.Writes != 1 || f.Newest != 2 || f.Buckets != 1 || len(f.Instances) != 2 ||
		f.Instances[0] != (InstanceFormats{"new", 1, 2, 1}) || f.Instances[1] != (InstanceFormats{"old", 1, 1, 1}) {
		t.Errorf("shown is %+v, %v", f, err)
	}
	old.Close()
	if f := announceNow(t, next); f.Writes != 2 {
		t.Errorf("alone: %+v", f)
	}
	if features := next.client.HGet(t.Context(), next.keys.meta(), "features").Val(); features != "records,test" {
		t.Errorf("features are %q", features)
	}
	c.Prefix += "none"
	if _, err := ReadFormats(t.Context(), c); err == nil || !strings.Contains(err.Error(), "nothing is stored") {
		t.Errorf("of nothing: %v", err)
	}
	if err := PinFormat(t.Context(), c, 1); err == nil {
		t.Error("pinned nothing")
	}
}

// TestRepeatInAnotherFormat: the same message is a duplicate and another one a
// conflict, whatever formats they are in.
func TestRepeatInAnotherFormat(t *testing.T) {
	c := oneBucket(t)
	message := func(body string) *core.Message {
		return &core.Message{ID: "a", Sink: "orders", Topic: "t", Key: []byte("k"), Body: []byte(body), Delay: time.Hour, TTL: 2 * time.Hour}
	}
	old, next := named(t, c, "old"), newVersion(t, c, "new")
	if r := old.Park(t.Context(), message("1"))[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	old.Close()
	announceNow(t, next)
	for _, test := range []struct {
		body string
		want error
	}{{"1", nil}, {"2", core.ErrConflict}} {
		r := next.Park(t.Context(), message(test.body))[0]
		if !errors.Is(r.Err, test.want) || (test.want == nil) != r.Duplicate {
			t.Errorf("body %s again, in a newer format: %+v", test.body, r)
		}
	}
	// And back: what is stored in the newer format can't be compared by the old version.
	park(t, next, &core.Message{ID: "b", Delay: time.Hour})
	if err := PinFormat(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	back := named(t, c, "back")
	if r := back.Park(t.Context(), &core.Message{ID: "b", Sink: "orders", Topic: "t", Delay: time.Hour})[0]; !errors.Is(r.Err, core.ErrUnavailable) || r.Duplicate {
		t.Errorf("repeat of what can't be read: %+v", r)
	}
}

// TestNewerRecordWaits: an instance that can't read a record neither delivers nor
// buries it, and delivers the others; one that can gets the bucket.
func TestNewerRecordWaits(t *testing.T) {
	c := oneBucket(t)
	next := newVersion(t, c, "new")
	park(t, next, &core.Message{ID: "newer"})
	park(t, next, &core.Message{ID: "newer high", Priority: 9})
	next.Close()
	if err := PinFormat(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	old := named(t, c, "old")
	for _, id := range []string{"a", "b", "c"} {
		park(t, old, &core.Message{ID: id, Priority: len(id)})
	}
	readable := newCollector(3)
	defer serve(t, old, readable, core.RetryPolicy{})()
	readable.await(t)
	wantNewer(t, old, "newer")
	until(t, "what can't be read is rescheduled", func() bool {
		_, err := old.Reschedule(t.Context(), core.Ref{ID: "newer high", Sink: "orders"}, core.When{After: time.Hour})
		if err != nil && !errors.Is(err, core.ErrTooLate) { // a look at the bucket has it in flight for a moment
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := old.Cancel(t.Context(), core.Ref{ID: "newer high", Sink: "orders"}); err != nil {
		t.Errorf("cancel what can't be read: %v", err)
	}

	late := newVersion(t, c, "late")
	sink := newCollector(1)
	defer serve(t, late, sink, core.RetryPolicy{})()
	old.formats.mu.Lock()
	old.formats.tried = time.Time{} // as after 5 s
	old.formats.mu.Unlock()
	sink.await(t)
	until(t, "the bucket is left to the new version", func() bool { return len(old.owned.owns("orders")) == 0 })
	if n, m := sink.count("newer"), readable.count("newer"); n != 1 || m != 0 {
		t.Errorf("delivered %d times by the new version, %d times by the old one", n, m)
	}
	park(t, old, &core.Message{ID: "more"})
	until(t, "the new version delivers what the old one parks", func() bool { return sink.count("more") == 1 })
}

// TestBucketGivenUpAtANewerRecord: an owner that meets one which another instance
// reads gives the bucket up at once, whatever it last heard.
func TestBucketGivenUpAtANewerRecord(t *testing.T) {
	c := oneBucket(t)
	old := named(t, c, "old")
	sink := newCollector(1)
	defer serve(t, old, newCollector(0), core.RetryPolicy{})()
	until(t, "old owns the bucket", func() bool { return len(old.owned.owns("orders")) == 1 })
	if err := old.client.HDel(t.Context(), old.keys.meta(), "reads:old").Err(); err != nil { // as if it had stood still
		t.Fatal(err)
	}
	next := newVersion(t, c, "new")
	defer serve(t, next, sink, core.RetryPolicy{})()
	until(t, "new serves", func() bool {
		return next.client.ZScore(t.Context(), next.keys.live("orders"), "new").Err() == nil
	})
	park(t, next, &core.Message{ID: "newer"})
	old.formats.mu.Lock()
	old.formats.tried = time.Time{}
	old.formats.mu.Unlock()
	sink.await(t)
	if e, err := next.Get(t.Context(), core.Ref{ID: "newer", Sink: "orders"}); err == nil && e.State == core.Dead {
		t.Errorf("it was buried: %+v", e)
	}
}

// count tells how often a message was delivered.
func (c *collector) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[id]
}

// wantNewer fails unless s says that it can't read a message, which is no dead letter.
func wantNewer(t *testing.T, s *Store, id string) {
	t.Helper()
	ref := core.Ref{ID: id, Sink: "orders"}
	e, err := s.Get(t.Context(), ref)
	if err != nil || e.State == core.Dead || !strings.Contains(e.Error, "newer format") {
		t.Errorf("get: %+v, %v", e, err)
	}
	page, err := s.List(t.Context(), core.Query{Sinks: []string{"orders"}, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Message.ID == id && !strings.Contains(e.Error, "newer format") {
			t.Errorf("list: %+v", e)
		}
	}
	ref.Key = []byte("k")
	if e, err := s.Get(t.Context(), ref); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("get by key: %+v, %v; the key can't be compared", e, err)
	}
}

// TestDamagedRecordIsStillBuried: one of a format that is known here.
func TestDamagedRecordIsStillBuried(t *testing.T) {
	s := named(t, oneBucket(t), "a")
	park(t, s, &core.Message{ID: "bad"})
	key := s.keys.bucket("orders", 0)[1]
	record := s.client.HGet(t.Context(), key, "bad").Val()
	damaged := record[:2] + "\xff" + record[3:] // a topic longer than the record
	if err := s.client.HSet(t.Context(), key, "bad", damaged).Err(); err != nil {
		t.Fatal(err)
	}
	defer serve(t, s, newCollector(0), core.RetryPolicy{})()
	until(t, "it is a dead letter", func() bool {
		e, err := s.Get(t.Context(), core.Ref{ID: "bad", Sink: "orders"})
		return err == nil && e.State == core.Dead
	})
}

// TestFormatsOfAFullRedis: an instance can start and be pinned on a Redis that is full,
// so that it can be drained.
func TestFormatsOfAFullRedis(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	c := Config{Addrs: []string{server.Addr()}, Buckets: 1}
	open(t, c)
	server.MustDo("CONFIG", "SET", "maxmemory", "1mb")
	defer server.MustDo("CONFIG", "SET", "maxmemory", "0")
	s := open(t, c)
	if err := PinFormat(t.Context(), c, 1); err != nil {
		t.Error(err)
	}
	if f := announceNow(t, s); f.Pin != 1 || len(f.Instances) != 2 {
		t.Errorf("%+v", f)
	}
}

// TestServeAnnounces: an instance that only delivers counts, too.
func TestServeAnnounces(t *testing.T) {
	c := oneBucket(t)
	c.Lease = suiteLease
	s := named(t, c, "a")
	s.formats.tried = time.Time{} // long ago
	if err := s.client.HDel(t.Context(), s.keys.meta(), "reads:a").Err(); err != nil {
		t.Fatal(err)
	}
	defer serveWith(t, s, func(ctx context.Context, _ core.Bucket) error { <-ctx.Done(); return nil })()
	until(t, "it is announced", func() bool {
		return s.client.HExists(t.Context(), s.keys.meta(), "reads:a").Val()
	})
}
