package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// collector is a sink that counts what arrives and refuses what is early.
type collector struct {
	mu        sync.Mutex
	seen      map[string]int
	want      int
	all       chan struct{}
	early     []string
	failFirst bool // each message fails at its first attempt
}

func newCollector(want int) *collector {
	return &collector{seen: make(map[string]int), want: want, all: make(chan struct{})}
}

func (c *collector) Deliver(_ context.Context, batch []*core.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		if time.Now().Before(m.DeliverAt) {
			c.early = append(c.early, m.ID)
		}
		if c.failFirst && m.Attempt == 1 {
			results[n] = errors.New("first attempt")
			continue
		}
		if c.seen[m.ID]++; c.seen[m.ID] == 1 && len(c.seen) == c.want {
			close(c.all)
		}
	}
	return results
}

func (c *collector) Close() error { return nil }

// await waits until as many different messages have arrived as are wanted.
func (c *collector) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.all:
	case <-time.After(patience):
		c.mu.Lock()
		t.Errorf("%d of %d messages arrived", len(c.seen), c.want)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.early) > 0 {
		t.Errorf("%d messages were early, such as %s", len(c.early), c.early[0])
	}
}

func (c *collector) repeats() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.seen {
		n += times - 1
	}
	return n
}

// serve delivers the messages of sink "orders" until stop is called.
func serve(t *testing.T, s *Store, sink core.Sink, retry core.RetryPolicy) (stop func()) {
	t.Helper()
	d := &core.Dispatcher{Name: "orders", Sink: sink, Retry: retry}
	return serveWith(t, s, d.Run)
}

// serveWith has work done on the buckets of sink "orders" until stop is called.
func serveWith(t *testing.T, s *Store, work func(context.Context, core.Bucket) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, "orders", work) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
