package redisstore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// The tests here take away one right after another of those that a settle needs, so
// that it fails at every place where it can: Redis does not roll a script back.

// settleCommands are all that a settle may use.
func settleCommands() []string {
	var names []string
	for _, found := range regexp.MustCompile(`redis\.call\('([A-Z]+)'`).FindAllStringSubmatch(luaBucket+luaNumber+luaSettle, -1) {
		names = append(names, strings.ToLower(found[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestSettleGoesOnWhereItFailed: a settle that failed is repeated until its work is
// done, and then every message has its outcome once.
func TestSettleGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, command := range settleCommands() {
		t.Run(command, func(t *testing.T) {
			s, b, outcomes := unsettled(t, server)
			server.MustDo("ACL", "SETUSER", "u", "-"+command)
			for range 2 {
				b.settle(t.Context(), outcomes) // whether it fails is not the point
			}
			server.MustDo("ACL", "SETUSER", "u", "+@all")
			for range 2 {
				if err := b.settle(t.Context(), outcomes); err != nil {
					t.Fatalf("with all rights: %v", err)
				}
			}
			wantAllSettled(t, s, b)
		})
	}
}

// TestSettleGoesOnFromAnyCall: the same wherever else it may fail.
func TestSettleGoesOnFromAnyCall(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for n, failed := 1, true; failed; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s, b, outcomes := unsettled(t, server)
			whole := s.scripts.settle
			s.scripts.settle = newChange("settle", fmt.Sprintf(failingAt, n), luaBucket, luaNumber, luaRemember, luaSettle)
			if err := s.scripts.load(t.Context(), s.client); err != nil {
				t.Fatal(err)
			}
			failed = b.settle(t.Context(), outcomes) != nil
			s.scripts.settle = whole
			for range 2 {
				if err := b.settle(t.Context(), outcomes); err != nil {
					t.Fatalf("when nothing fails: %v", err)
				}
			}
			wantAllSettled(t, s, b)
		})
		if n > 200 {
			t.Fatal("it fails without end")
		}
	}
}

// failingAt stands before a script and lets one of its calls fail.
const failingAt = `
local real, calls = redis, 0
local redis = {error_reply = real.error_reply, call = function(...)
  calls = calls + 1
  if calls == %d then error('here') end
  return real.call(...)
end}
`

// TestOwnerAfterAHalfDoneSettle: what a settle did before its owner was gone stays
// done, and what it did not do is as if it had never been.
func TestOwnerAfterAHalfDoneSettle(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, command := range settleCommands() {
		t.Run(command, func(t *testing.T) {
			s, b, outcomes := unsettled(t, server)
			server.MustDo("ACL", "SETUSER", "u", "-"+command)
			b.settle(t.Context(), outcomes)
			server.MustDo("ACL", "SETUSER", "u", "+@all")
			if err := s.cutOff(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			batch, err := b.Take(t.Context(), core.MaxTake)
			if err != nil {
				t.Fatal(err)
			}
			taken := make(map[string]*core.Message)
			for _, m := range batch.Messages {
				if taken[m.ID] != nil {
					t.Errorf("%s is taken twice", m.ID)
				}
				taken[m.ID] = m
			}
			for _, o := range outcomes {
				m := taken[o.ID]
				if m != nil && (m.Attempt != 2 || !m.CutOff) {
					t.Errorf("%s came back with attempt %d, cut off %t", o.ID, m.Attempt, m.CutOff)
				}
				if m == nil {
					wantPlace(t, s, o.ID, o.State)
				}
			}
			for _, id := range []string{"next0", "next5"} {
				if m := taken[id]; m == nil || m.Attempt != 1 || m.CutOff {
					t.Errorf("%s, which was not in flight, is taken as %+v", id, m)
				}
			}
			if taken["quiet0"] == nil {
				t.Error("what was not named is not taken again")
			}
		})
	}
}

// unsettled has taken messages of some priorities as a user with all rights, u, and
// returns what became of them. Others, next0 and next5, are due and not in flight.
func unsettled(t *testing.T, server *servers.RedisServer) (*Store, *bucket, []core.Outcome) {
	t.Helper()
	server.MustDo("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
	s := open(t, Config{Addrs: []string{server.Addr()}, Username: "u", Password: "p", Prefix: fmt.Sprintf("t%d", prefixes.Add(1)), Buckets: 1, Lease: time.Hour})
	b := ownByHand(t, s)
	parkDue(t, s, "all5", "part0", "back0", "back0b", "back3", "dead0", "dead3", "quiet0")
	wantTaken(t, b, "all5", "back3", "dead3", "part0", "back0", "back0b", "dead0", "quiet0")
	parkDue(t, s, "next0", "next5")
	outcomes := []core.Outcome{{ID: "dead3", State: core.Dead}, {ID: "all5", State: core.Delivered}, {ID: "back0", State: core.Retrying},
		{ID: "part0", State: core.Delivered}, {ID: "dead0", State: core.Dead}, {ID: "back3", State: core.Retrying}, {ID: "back0b", State: core.Retrying}}
	for n := range outcomes {
		if o := &outcomes[n]; o.State != core.Delivered {
			o.After, o.Attempts, o.Reason = time.Hour, 1, "retry"
		}
	}
	return s, b, outcomes
}

// wantAllSettled checks that the outcomes of unsettled are what there is, once.
func wantAllSettled(t *testing.T, s *Store, b *bucket) {
	t.Helper()
	wantAttempts(t, s, map[string]int{"all5": -1, "part0": -1, "back0": 1, "back0b": 1, "back3": 1, "dead0": 1, "dead3": 1, "quiet0": 0, "next0": 0, "next5": 0})
	wantTaken(t, b, "next5", "quiet0", "next0")
	wantSizes(t, s, b, 6+2, 5, 2)
}

// parkDue parks messages that are due, of the priority that their names end with.
func parkDue(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		var priority int
		fmt.Sscanf(strings.Trim(id, "abcdefghijklmnopqrstuvwxyz"), "%d", &priority)
		parkAll(t, s, &core.Message{ID: id, Sink: "orders", Topic: "t", Priority: priority, DeliverAt: time.UnixMilli(1)})
	}
}

// wantTaken takes all that is due, and leaves it in flight.
func wantTaken(t *testing.T, b *bucket, want ...string) {
	t.Helper()
	batch, err := b.Take(t.Context(), core.MaxTake)
	var got []string
	for _, m := range batch.Messages {
		got = append(got, m.ID)
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("take: %v (-want +got):\n%s", err, diff)
	}
}

// wantAttempts checks how often each message counts as tried: -1 is delivered.
func wantAttempts(t *testing.T, s *Store, want map[string]int) {
	t.Helper()
	for id, attempts := range want {
		entry, err := s.Get(t.Context(), core.Ref{ID: id, Sink: "orders"})
		state := map[bool]core.State{true: core.Scheduled, false: core.Delivered}[attempts == 0]
		if attempts > 0 {
			state = map[bool]core.State{true: core.Dead, false: core.Retrying}[strings.HasPrefix(id, "dead")]
		}
		if err != nil {
			t.Errorf("%s: %v", id, err)
		} else if entry.State != state || entry.Message.Attempt != max(0, attempts) {
			t.Errorf("%s is %s with attempt %d; want %s", id, entry.State, entry.Message.Attempt, state)
		}
	}
}

// wantSizes checks that nothing is left over of what has moved or gone.
func wantSizes(t *testing.T, s *Store, b *bucket, messages, failed, dead int64) {
	t.Helper()
	ctx, waiting := t.Context(), int64(0)
	for _, key := range b.keys[5:] {
		waiting += s.client.ZCard(ctx, key).Val()
	}
	got := []int64{s.client.HLen(ctx, b.keys[1]).Val(), waiting, s.client.HLen(ctx, b.keys[2]).Val(), s.client.ZCard(ctx, b.keys[3]).Val()}
	if diff := cmp.Diff([]int64{messages, messages - dead, failed, dead}, got); diff != "" {
		t.Errorf("messages, waiting, failed and dead (-want +got):\n%s", diff)
	}
}

// TestSettleInParts: more failures than one call tells of have their outcome once,
// in their order, also when the second part did not come through at first.
func TestSettleInParts(t *testing.T) {
	t.Parallel()
	s, b := bucketWith(t)
	const many = 2*settlePart + 20
	var ids []string
	for n := range many {
		ids = append(ids, fmt.Sprintf("m%03d-0", n))
	}
	messages := make([]*core.Message, many)
	for n, id := range ids {
		messages[n] = &core.Message{ID: id, Sink: "orders", Topic: "t", DeliverAt: time.UnixMilli(1)}
	}
	parkAll(t, s, messages...)
	wantTaken(t, b, ids...)
	outcomes := make([]core.Outcome, many)
	for n, id := range ids {
		outcomes[n] = core.Outcome{ID: id, State: core.Retrying, Attempts: 1, Reason: "retry"}
	}
	parts := b.settleParts(outcomes)
	if len(parts) != 3 {
		t.Fatalf("%d parts, want 3", len(parts))
	}
	first := newCall(t.Context(), s.scripts.settle, b.keys, append([]any{b.token, 0, b.takes, 1, parts[0].groups}, parts[0].args...)...)
	if s.run(t.Context(), s.serving, first); first.Err() != nil {
		t.Fatal(first.Err())
	}
	wantPlace(t, s, ids[0], core.Retrying)
	wantPlace(t, s, ids[many-1], core.Delivering)
	if err := b.settle(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, member := range s.client.ZRange(t.Context(), b.keys[5], 0, -1).Val() {
		order = append(order, member[seqLen:])
	}
	if diff := cmp.Diff(ids, order); diff != "" {
		t.Errorf("in order of due time (-want +got):\n%s", diff)
	}
	wantSizes(t, s, b, many, many, 0)
}
