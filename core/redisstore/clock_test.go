package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ahead is a hook that has the server's clock run ahead of what it is.
type ahead struct {
	around
	by time.Duration
}

func (a ahead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(*redis.TimeCmd); ok {
			c.SetVal(c.Val().Add(a.by))
		}
		return err
	}
}

// TestClockOffset: on one machine Redis's clock is ours.
func TestClockOffset(t *testing.T) {
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		s := open(t, freshConfig(t))
		s.client.AddHook(ahead{func(_ string, run func() error) error { return run() }, by})
		began := time.Now()
		offset, err := s.ClockOffset(t.Context())
		if took := time.Since(began); err != nil || (offset-by).Abs() > took/2+time.Microsecond {
			t.Errorf("%s: %s, %v, in %s", by, offset, err, took)
		}
	}
}

// TestTakeTellsWhenRedisLooked: on one machine Redis's clock is ours, so that it
// shows whether a take is said to have looked later than it did, which would make
// lateness look better than it is. A reply that is long on its way, or a request,
// must not move that.
func TestTakeTellsWhenRedisLooked(t *testing.T) {
	_, b := bucketWith(t, "a")
	var before, after atomic.Int64 // how long the ways are
	b.store.serving.AddHook(around(func(sha string, run func() error) error {
		if sha != b.store.scripts.take.sha {
			return run()
		}
		time.Sleep(time.Duration(before.Load()))
		defer func() { time.Sleep(time.Duration(after.Load())) }()
		return run()
	}))
	const long = time.Second
	for _, way := range []struct{ before, after time.Duration }{{0, long}, {0, 0}, {0, 0}, {0, 0}, {long, 0}, {0, long}} {
		before.Store(int64(way.before))
		after.Store(int64(way.after))
		sent := time.Now()
		batch, err := b.Take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		early := batch.Now.Sub(batch.Local) // both clocks are the same
		if early < -time.Microsecond || early > long/2 || batch.Local.Before(sent) {
			t.Errorf("request held up for %s and reply for %s: said to have looked %s before it did", way.before, way.after, early)
		}
	}
}
