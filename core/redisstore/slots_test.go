package redisstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// TestRenewedThoughTakesHaveAllConnections: however many buckets are busy, and
// however long Redis takes for them.
func TestRenewedThoughTakesHaveAllConnections(t *testing.T) {
	config := freshConfig(t)
	config.Lease = time.Hour // does not end, whatever the machine does meanwhile
	config.Buckets = 1
	s := open(t, config)
	v := byHand(t, s, idle)
	if !v.requestNow(t.Context(), 0) {
		t.Fatal("bucket is not owned")
	}
	defer v.giveBack(t.Context(), 0)
	for range poolSize { // what takes could ever have
		conn := s.serving.(*redis.Client).Conn()
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := conn.Ping(ctx).Err()
		cancel()
		if err != nil {
			break // all are in use
		}
	}
	wantRenewed(t, s, v)
}

// wantRenewed fails if a renewal of bucket 0 does not reach Redis.
func wantRenewed(t *testing.T, s *Store, v *sinkServer) {
	t.Helper()
	end := func() int64 {
		ms, err := s.client.HGet(t.Context(), s.keys.bucket("orders", 0)[0], "until").Int64()
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	first := end()
	until(t, "Redis has prolonged it", func() bool {
		v.renew(t.Context(), time.Now().Add(v.leaseTime))
		return end() > first
	})
}

// callTimes is a hook that keeps the takes of a server there until release is
// closed, and notes until when each may last.
type callTimes struct {
	sha       string
	release   chan struct{}
	mu        sync.Mutex
	now, most int
	ends      []time.Time
}

func (c *callTimes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *callTimes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *callTimes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if sha, _ := cmds[0].Args()[1].(string); sha != c.sha {
			return next(ctx, cmds)
		}
		end, _ := ctx.Deadline()
		c.mu.Lock()
		c.now++
		c.most = max(c.most, c.now)
		c.ends = append(c.ends, end)
		c.mu.Unlock()
		<-c.release
		err := next(ctx, cmds)
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
		return err
	}
}

func (c *callTimes) under() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// TestTakesWaitBeforeTheirTimeBegins: of many takes few are at the server at once,
// and those that wait have their whole time when it is their turn.
func TestTakesWaitBeforeTheirTimeBegins(t *testing.T) {
	const many = 4 * callsAtOnce
	config := freshConfig(t)
	config.Buckets, config.Lease = many, time.Hour
	s := open(t, config)
	hook := &callTimes{sha: s.scripts.take.sha, release: make(chan struct{})}
	s.serving.AddHook(hook)
	buckets := make(chan *bucket, many)
	defer serveWith(t, s, func(ctx context.Context, b core.Bucket) error {
		buckets <- b.(*bucket)
		<-ctx.Done()
		return nil
	})()
	taken := make(chan error, many)
	for range many {
		b := <-buckets
		go func() {
			_, err := b.Take(t.Context(), 10)
			taken <- err
		}()
	}
	until(t, "all slots are in use", func() bool { return hook.under() >= callsAtOnce })
	released := time.Now()
	close(hook.release)
	for range many {
		if err := <-taken; err != nil {
			t.Error(err)
		}
	}
	if hook.most > callsAtOnce {
		t.Errorf("%d takes were at the server at once, want %d at most", hook.most, callsAtOnce)
	}
	whole := 0
	for _, end := range hook.ends {
		if !end.Before(released.Add(s.config.timeout)) {
			whole++
		}
	}
	if want := many - callsAtOnce; whole < want {
		t.Errorf("%d takes had their whole time after the wait, want %d", whole, want)
	}
}

// TestSlotsAreOfOneServer: one that does not answer keeps none from the others.
func TestSlotsAreOfOneServer(t *testing.T) {
	t.Parallel()
	s := slots{most: callsAtOnce}
	for range callsAtOnce {
		s.at("a") <- struct{}{}
	}
	if used := len(s.at("b")); used != 0 {
		t.Errorf("%d slots of another server are in use", used)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := redis.NewClient(&redis.Options{Addr: "a"})
	defer client.Close()
	if _, err := s.enter(ctx, client, "key"); err == nil {
		t.Error("there is no end of slots")
	}
}

// TestSlotsRest: a slot that rests is free twice as long after a call as that took, but
// no later than maxRest.
func TestSlotsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{most: 1, rest: 2}
		for held, rest := range map[time.Duration]time.Duration{time.Millisecond: 2 * time.Millisecond, time.Second: maxRest} {
			used := s.at("server")
			used <- struct{}{}
			s.leave(used, held)
			left := time.Now()
			used <- struct{}{} // waits until it is free
			if got := time.Since(left); got != rest {
				t.Errorf("held for %s: free after %s, want %s", held, got, rest)
			}
			<-used
		}
	})
}
