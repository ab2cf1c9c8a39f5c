package redisstore

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// withOutbox has a store keep lines such as "dead a" with what is behind the sequence number
// in their ids, which is of the state.
func withOutbox(c Config) Config {
	c.Final = func(id string, m *core.Message, o core.Outcome) []byte {
		return []byte(id + " " + m.ID + " " + o.Reason)
	}
	return c
}

// unsentLines returns the lines that wait, without their ids, and how many were lost; all
// are sent if remove is set.
func unsentLines(t *testing.T, s *Store, remove bool) (lines []string, lost int) {
	t.Helper()
	s.lookedForUnsent = time.Time{}
	s.LookForUnsent(t.Context())
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		found, untold, sent, err := s.Unsent(ctx)
		cancel()
		if err != nil {
			slices.Sort(lines)
			return lines, lost
		}
		for _, line := range found {
			lines = append(lines, string(line[bytes.LastIndexByte(line, ':')+1:]))
		}
		lost += untold
		if remove {
			if err := sent(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tellingBucket owns the one bucket of a store of that configuration.
func tellingBucket(t *testing.T, c Config) (*Store, *bucket) {
	t.Helper()
	c.Buckets, c.Lease = 1, time.Hour
	s := open(t, withOutbox(c))
	return s, ownByHand(t, s)
}

// TestOutboxTellsOfEveryEnd: what ends in any way has its line, which waits until it was
// sent, and what has not ended has none.
func TestOutboxTellsOfEveryEnd(t *testing.T) {
	t.Parallel()
	cluster := func(t *testing.T) Config { return clusterConfig(t, servers.RedisCluster(t, 3)) }
	for name, config := range map[string]func(*testing.T) Config{"one": freshConfig, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			s, b := tellingBucket(t, config(t))
			parkDue(t, s, "delivered", "delivered5", "dead", "expired", "retried", "damaged")
			parkAll(t, s, &core.Message{ID: "cancelled", Sink: "orders", Topic: "t", Delay: time.Hour})
			s.client.HSet(t.Context(), b.keys[1], "damaged", damage(s.client.HGet(t.Context(), b.keys[1], "damaged").Val()))
			if _, err := b.Take(t.Context(), core.MaxTake); err == nil {
				t.Fatal("a damaged record was taken")
			}
			wantTaken(t, b, "delivered5", "delivered", "dead", "expired", "retried")
			failed := func(id string, state core.State) core.Outcome {
				return core.Outcome{ID: id, State: state, Attempts: 1, Reason: "why", After: time.Hour}
			}
			outcomes := []core.Outcome{{ID: "delivered5", State: core.Delivered}, {ID: "delivered", State: core.Delivered},
				failed("dead", core.Dead), failed("expired", core.Expired), failed("retried", core.Retrying)}
			if err := b.Settle(t.Context(), outcomes...); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Cancel(t.Context(), core.Ref{ID: "cancelled", Sink: "orders"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Discard(t.Context(), core.Ref{ID: "dead", Sink: "orders"}); err != nil {
				t.Fatal(err)
			}
			want := []string{"cancelled cancelled ", "dead damaged damaged", "dead dead why", "delivered delivered ", "delivered delivered5 ", "discarded dead ", "expired expired why"}
			got, lost := unsentLines(t, s, true)
			if diff := cmp.Diff(want, got); diff != "" || lost != 0 {
				t.Errorf("%d lost (-want +got):\n%s", lost, diff)
			}
			if again, _ := unsentLines(t, s, true); again != nil {
				t.Errorf("again: %q", again)
			}
			if left := s.client.HMGet(t.Context(), b.keys[0], "told", "untold").Val(); left[0] != nil || left[1] != nil {
				t.Errorf("told and untold are %v", left)
			}
		})
	}
}

// damage returns a record whose content can't be read.
func damage(record string) string { return record[:2] + "\xff\xff\xff\xff\xff" + record[7:] }

// TestOutboxIsSentAgain: what was read and not removed is told again, also to the next
// owner; a removal that comes late takes only what was sent.
func TestOutboxIsSentAgain(t *testing.T) {
	t.Parallel()
	s, b := tellingBucket(t, freshConfig(t))
	parkDue(t, s, "a", "b")
	takeOne(t, b, "a")
	settle(t, b, "a")
	first, _, late, err := s.Unsent(t.Context())
	if err != nil || len(first) != 1 {
		t.Fatalf("%q, %v", first, err)
	}
	s.owned.tell(b) // as for a new owner
	again, _, sent, err := s.Unsent(t.Context())
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Fatalf("again: %v (-want +got):\n%s", err, diff)
	}
	takeOne(t, b, "b")
	settle(t, b, "b")
	for _, remove := range []func(context.Context) error{sent, late} {
		if err := remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, lost := unsentLines(t, s, true); !slices.Equal(got, []string{"delivered b "}) || lost != 0 {
		t.Errorf("%q wait, %d lost", got, lost)
	}
}

// TestOutboxOfRepeatedSettle: a settle that is repeated after its reply was lost tells
// nothing again; one that failed after it has told may, with the same id.
func TestOutboxOfRepeatedSettle(t *testing.T) {
	t.Parallel()
	s, b := tellingBucket(t, freshConfig(t))
	parkDue(t, s, "a")
	takeOne(t, b, "a")
	repeated, late := *b, *b
	repeated.inFlight, late.inFlight = slices.Clone(b.inFlight), slices.Clone(b.inFlight)
	whole := s.scripts.settle
	s.scripts.settle = newChange("settle", luaBucket, luaTell, luaNumber, luaRemember, strings.Replace(luaSettle, "held[p + 1] and stands(p, count, a)", "error('here')", 1))
	if err := s.scripts.load(t.Context(), s.client); err != nil {
		t.Fatal(err)
	}
	if err := b.settle(t.Context(), []core.Outcome{{ID: "a", State: core.Delivered}}); err == nil {
		t.Fatal("settled")
	}
	s.scripts.settle = whole
	settle(t, &repeated, "a")
	settle(t, &late, "a")
	s.owned.told(9) // of these copies
	s.owned.tell(b)
	lines, _, _, err := s.Unsent(t.Context())
	if err != nil || len(lines) != 2 || string(lines[0]) != string(lines[1]) {
		t.Errorf("%q, %v; want the same line twice", lines, err)
	}
}

// TestOutboxIsBounded: what there is no room for, or no right, is counted, and what the
// script does goes on.
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	server.MustDo("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
	s, b := tellingBucket(t, Config{Addrs: []string{server.Addr()}, Username: "u", Password: "p", MaxUnsent: 60})
	deliver := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			parkDue(t, s, id)
			takeOne(t, b, id)
			settle(t, b, id)
			wantPlace(t, s, id, core.Delivered)
		}
	}
	want := func(lost int, want ...string) {
		t.Helper()
		if got, untold := unsentLines(t, s, true); !slices.Equal(got, want) || untold != lost {
			t.Errorf("%q wait and %d are lost; want %q and %d", got, untold, want, lost)
		}
	}
	deliver("a", "b", "c")
	want(2, "delivered a ")
	deliver(strings.Repeat("x", 100)) // more than all that may wait
	want(0, "delivered "+strings.Repeat("x", 100)+" ")
	deliver("d")
	server.MustDo("DEL", b.keys[len(b.keys)-1]) // by an operator
	deliver("e")
	want(0, "delivered e ")
	for _, right := range []string{"xadd", "xlen"} {
		server.MustDo("ACL", "SETUSER", "u", "-"+right)
		deliver("without-" + right)
		server.MustDo("ACL", "SETUSER", "u", "+@all")
	}
	want(1, "delivered without-xlen ")
	parkDue(t, s, "full")
	takeOne(t, b, "full")
	server.MustDo("CONFIG", "SET", "maxmemory", "1mb")
	settle(t, b, "full")
	server.MustDo("CONFIG", "SET", "maxmemory", "0")
	want(0, "delivered full ")
}

// TestNoOutboxWithoutFinal: who is told nothing pays nothing, and leaves alone what
// another has kept.
func TestNoOutboxWithoutFinal(t *testing.T) {
	t.Parallel()
	s, b := bucketWith(t, "a")
	takeOne(t, b, "a")
	settle(t, b, "a")
	if len(b.keys) != 15 || s.client.Exists(t.Context(), s.keys.tag("orders", 0)+"events").Val() != 0 {
		t.Errorf("keys %q", b.keys)
	}
}
