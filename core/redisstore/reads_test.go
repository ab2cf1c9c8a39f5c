package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// The tests here count what is asked of Redis, on a server of their own.

const wide = 64 // buckets

func openWide(t *testing.T) *Store {
	t.Helper()
	return open(t, Config{Addrs: []string{servers.Redis(t, servers.RedisOptions{}).Addr()}, Prefix: "t", Buckets: wide, Lease: time.Hour})
}

// TestListReadsWhatAPageNeeds: of many buckets that all have a page's worth.
func TestListReadsWhatAPageNeeds(t *testing.T) {
	t.Parallel()
	s := openWide(t)
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for part := range 20 {
		messages := make([]*core.Message, 500)
		for n := range messages {
			at := part*500 + n
			messages[n] = &core.Message{ID: fmt.Sprintf("m%05d", at), Sink: "orders", Topic: "t", Priority: n % 3, DeliverAt: due.Add(time.Duration(at) * time.Millisecond)}
		}
		parkAll(t, s, messages...)
	}
	var members atomic.Int64
	s.client.AddHook(countReplies{s.scripts.page.sha, &members})
	query := core.Query{Sinks: []string{"orders"}, Limit: 100}
	for from := 0; from < 500; from += query.Limit {
		page, err := s.List(t.Context(), query)
		if err != nil || len(page.Entries) != query.Limit {
			t.Fatalf("%d entries, %v", len(page.Entries), err)
		}
		for n, e := range page.Entries {
			if want := fmt.Sprintf("m%05d", from+n); e.Message.ID != want {
				t.Fatalf("entry %d is %s, want %s", n, e.Message.ID, want)
			}
		}
		query.Cursor = page.Next
	}
	if most := int64(5 * 10 * query.Limit); members.Load() > most {
		t.Errorf("%d members were read for 5 pages of %d, want %d at most", members.Load(), query.Limit, most)
	}
}

// TestListOfOneFullBucket: what one bucket has is read to the end of the page, however
// little the others have.
func TestListOfOneFullBucket(t *testing.T) {
	t.Parallel()
	s := openWide(t)
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	messages := make([]*core.Message, 500)
	for n := range messages {
		messages[n] = &core.Message{ID: fmt.Sprintf("m%05d", n), Key: []byte("k"), Sink: "orders", Topic: "t", Priority: n % 4, DeliverAt: due.Add(time.Duration(n) * time.Millisecond)}
	}
	parkAll(t, s, messages...)
	page, err := s.List(t.Context(), core.Query{Sinks: []string{"orders"}, Limit: core.MaxPage})
	if err != nil || len(page.Entries) != len(messages) || page.Next != "" {
		t.Fatalf("%d entries, next %q, %v", len(page.Entries), page.Next, err)
	}
	for n, e := range page.Entries {
		if e.Message.ID != messages[n].ID {
			t.Fatalf("entry %d is %s", n, e.Message.ID)
		}
	}
}

// TestByIDAsksOneBucket: a message without a key lies where its id leads to.
func TestByIDAsksOneBucket(t *testing.T) {
	t.Parallel()
	s := openWide(t)
	parkAll(t, s, &core.Message{ID: "order-42", Sink: "orders", Topic: "t", Delay: time.Hour},
		&core.Message{ID: "order-43", Key: []byte("k"), Sink: "orders", Topic: "t", Delay: time.Hour})
	for id, most := range map[string]int64{"order-42": 1, "order-43": 2, "unheard-of": 1} {
		s.client.ConfigResetStat(t.Context())
		_, err := s.Get(t.Context(), core.Ref{ID: id, Sink: "orders"})
		if found := err == nil; found != strings.HasPrefix(id, "order") {
			t.Errorf("get %s: %v", id, err)
		}
		if calls := commandCalls(t, s, "evalsha"); calls > most {
			t.Errorf("get %s ran %d scripts, want %d at most", id, calls, most)
		}
	}
}

// TestTakeAfterALargeRecord: a record that is large does not make the takes of the
// others slow, neither while it waits nor for good.
func TestTakeAfterALargeRecord(t *testing.T) {
	t.Parallel()
	s := openWide(t)
	b := ownByHand(t, s)
	var key []byte
	for n := 0; key == nil || core.BucketOf(key, "", wide) != 0; n++ {
		key = fmt.Append(nil, n)
	}
	parkAll(t, s, &core.Message{ID: "large", Key: key, Sink: "orders", Topic: "t", Body: make([]byte, 70<<10), Delay: time.Hour})
	messages := make([]*core.Message, core.MaxTake)
	for n := range messages {
		messages[n] = &core.Message{Generated: true, Key: key, Sink: "orders", Topic: "t", Body: make([]byte, 100), DeliverAt: time.UnixMilli(1)}
	}
	parkAll(t, s, messages...)
	s.client.ConfigResetStat(t.Context())
	if batch, err := b.Take(t.Context(), core.MaxTake); err != nil || len(batch.Messages) != core.MaxTake {
		t.Fatalf("took %d, %v", len(batch.Messages), err)
	}
	if calls := commandCalls(t, s, "hmget"); calls > core.MaxTake/5 {
		t.Errorf("%d calls to read %d small records", calls, core.MaxTake)
	}
}

// commandCalls is how often the server has run a command since its counts were reset.
func commandCalls(t *testing.T, s *Store, command string) (calls int64) {
	t.Helper()
	_, rest, _ := strings.Cut(s.client.Info(t.Context(), "commandstats").Val(), "cmdstat_"+command+":")
	fmt.Sscanf(rest, "calls=%d", &calls)
	return calls
}

// countReplies counts the members that a script has answered.
type countReplies struct {
	sha   string
	count *atomic.Int64
}

func (c countReplies) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c countReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c countReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			one, ok := cmd.(call)
			if !ok || one.Args()[1] != c.sha {
				continue
			}
			sets, _ := one.Slice()
			for _, set := range sets[min(1, len(sets)):] {
				c.count.Add(int64(len(set.([]any)[3].([]any)) / 2))
			}
		}
		return err
	}
}
