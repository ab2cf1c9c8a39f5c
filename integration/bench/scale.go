package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

// scaleParts are the parts of scale: what many buckets, sinks and instances cost.
func scaleParts() []part {
	return []part{
		{"scale.leases", measureLeases},
		{"scale.failures", measureFailures},
		{"scale.balance", measureBalance},
		{"scale.sinks", measureIdleSinks},
		{"scale.keyed", measureKeyed},
		{"scale.list", measureList},
		{"scale.byid", measureByID},
	}
}

// instance is one Store that serves sinks as a bridge does. It counts the leases
// that it holds and loses by what the store tells the work on each bucket, which
// waits until begin.
type instance struct {
	name  string
	store *redisstore.Store
	in    *core.Interceptor
	start chan struct{}
	stop  func() error

	mu     sync.Mutex
	held   map[string]string // buckets at work, each with the name of this instance
	lost   atomic.Int64      // leases that another instance may have had before they were given back
	failed atomic.Int64      // works that ended with another error, and were run again
}

// openInstance opens a store and serves sinks. Its zero fields have defaults.
func (b *bench) openInstance(ctx context.Context, config redisstore.Config, sinks ...*core.Dispatcher) (*instance, error) {
	config.Addrs = []string{b.redis.addr}
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	i := &instance{name: config.Instance, store: store, in: core.NewBridge(store, core.Options{}, sinks...).Interceptor,
		start: make(chan struct{}), held: make(map[string]string)}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, len(sinks))
	for _, d := range sinks {
		go func() { served <- store.Serve(ctx, d.Name, i.work(d)) }()
	}
	i.stop = sync.OnceValue(func() (err error) {
		cancel()
		for range sinks {
			err = errors.Join(err, <-served)
		}
		return errors.Join(err, store.Close())
	})
	return i, nil
}

// begin lets work on every bucket go on, at one instant.
func (i *instance) begin() { close(i.start) }

func (i *instance) work(d *core.Dispatcher) func(context.Context, core.Bucket) error {
	return func(ctx context.Context, bucket core.Bucket) error {
		i.hold(bucket, true)
		defer i.hold(bucket, false)
		select {
		case <-i.start:
		case <-ctx.Done():
		}
		err := d.Run(ctx, bucket)
		switch {
		case errors.Is(err, core.ErrLeaseLost) || errors.Is(context.Cause(ctx), core.ErrLeaseLost):
			i.lost.Add(1)
		case err != nil:
			i.failed.Add(1)
		}
		return err
	}
}

func (i *instance) hold(bucket core.Bucket, is bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if is {
		i.held[bucket.String()] = i.name
	} else {
		delete(i.held, bucket.String())
	}
}

// owners tells who holds which bucket.
func owners(instances []*instance) map[string]string {
	all := make(map[string]string)
	for _, i := range instances {
		i.mu.Lock()
		maps.Copy(all, i.held)
		i.mu.Unlock()
	}
	return all
}

// settled waits until every bucket is held and none has moved for a while, and
// returns who holds which.
func settled(ctx context.Context, instances []*instance, buckets int, still time.Duration) (map[string]string, error) {
	const patience = time.Minute
	deadline := time.Now().Add(patience)
	last, since := owners(instances), time.Now()
	for len(last) < buckets || time.Since(since) < still {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d buckets are held after %s, and they move still", len(last), buckets, patience)
		}
		time.Sleep(20 * time.Millisecond)
		if now := owners(instances); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
	}
	return last, nil
}

// sinkNames are the names of n sinks.
func sinkNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%03d", benchSink, i)
	}
	return names
}

// nullSinks are dispatchers that share one sink.
func nullSinks(names []string, sink core.Sink) []*core.Dispatcher {
	dispatchers := make([]*core.Dispatcher, len(names))
	for n, name := range names {
		dispatchers[n] = &core.Dispatcher{Name: name, Sink: sink}
	}
	return dispatchers
}

// cpuOf is the processor time that Redis has used, to the microsecond.
func cpuOf(ctx context.Context, c *redis.Client) (time.Duration, error) {
	text, err := c.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var total float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := infoField(text, name)
		if err != nil {
			return 0, err
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second)), nil
}
