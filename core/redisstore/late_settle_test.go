package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// TestLateSettleTouchesNothing: a settle whose answer never came is repeated, and
// the first of the two may reach Redis after the next take, out of the buffer of
// a connection that was given up. What is then in flight stays so.
func TestLateSettleTouchesNothing(t *testing.T) {
	s, b := bucketWith(t, "first", "second")
	takeOne(t, b, "first")
	late := *b
	late.inFlight = slices.Clone(b.inFlight)
	settle(t, b, "first")
	takeOne(t, b, "second")
	settle(t, &late, "first")
	wantPlace(t, s, "second", core.Delivering)
	settle(t, b)
	takeOne(t, b, "second")
}

// TestSettleOfWhatWasRolledBack: a replica that takes over may know of the take
// before only. What it has in flight is not what the settle is of.
func TestSettleOfWhatWasRolledBack(t *testing.T) {
	s, b := bucketWith(t, "first", "second")
	takeOne(t, b, "first")
	replica := snapshot(t, s, b.keys)
	if err := b.Settle(t.Context(), core.Outcome{ID: "first", State: core.Retrying, Attempts: 1, After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	takeOne(t, b, "second")
	replica()
	settle(t, b, "second")
	takeOne(t, b, "first")
	settle(t, b, "first")
	takeOne(t, b, "second")
}

// TestLateTakeTouchesNothing: a take that was given up may reach Redis when the one
// that followed it has been settled. Nobody would know of what it takes.
func TestLateTakeTouchesNothing(t *testing.T) {
	s, b := bucketWith(t, "first", "second")
	late := *b
	takeOne(t, b, "first")
	settle(t, b, "first")
	takeOne(t, b, "second")
	settle(t, b)
	if batch, err := late.Take(t.Context(), 1); err == nil {
		t.Errorf("late take has taken %+v", batch.Messages)
	}
	wantPlace(t, s, "second", core.Scheduled)
	// Another owner counts from one.
	if err := b.store.cutOff(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	takeOne(t, b, "second")
	settle(t, b)
	c := newCall(t.Context(), s.scripts.release, b.keys, b.token)
	if s.run(t.Context(), s.serving, c); c.Err() != nil {
		t.Fatal(c.Err())
	}
	other := &bucket{store: s, sink: "orders", keys: b.keys, token: "other"}
	if err := s.cutOff(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	takeOne(t, other, "second")
}

// bucketWith owns the one bucket of a store that has messages of these ids.
func bucketWith(t *testing.T, ids ...string) (*Store, *bucket) {
	t.Helper()
	config := freshConfig(t)
	config.Buckets, config.Lease = 1, time.Hour // nobody renews it here
	s := open(t, config)
	for _, id := range ids {
		if r := s.Park(t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", DeliverAt: time.Now().Add(-time.Second)})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return s, ownByHand(t, s)
}

func takeOne(t *testing.T, b *bucket, want string) {
	t.Helper()
	batch, err := b.Take(t.Context(), 1)
	if err != nil || len(batch.Messages) != 1 || batch.Messages[0].ID != want {
		t.Fatalf("took %+v, %v; want %s", batch.Messages, err, want)
	}
}

// settle tells that these were delivered.
func settle(t *testing.T, b *bucket, ids ...string) {
	t.Helper()
	var outcomes []core.Outcome
	for _, id := range ids {
		outcomes = append(outcomes, core.Outcome{ID: id, State: core.Delivered})
	}
	if err := b.settle(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

func wantPlace(t *testing.T, s *Store, id string, want core.State) {
	t.Helper()
	if entry, err := s.Get(t.Context(), core.Ref{ID: id, Sink: "orders"}); err != nil || entry.State != want {
		t.Errorf("%s is %s, %v; want %s", id, entry.State, err, want)
	}
}

// snapshot returns what puts keys back to what they are now.
func snapshot(t *testing.T, s *Store, keys []string) (back func()) {
	t.Helper()
	ctx, kept := context.Background(), make(map[string]string)
	for _, key := range keys {
		if value, err := s.client.Dump(ctx, key).Result(); err == nil {
			kept[key] = value
		} else if err != redis.Nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := s.client.Del(ctx, keys...).Err(); err != nil {
			t.Fatal(err)
		}
		for key, value := range kept {
			if err := s.client.Restore(ctx, key, 0, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
