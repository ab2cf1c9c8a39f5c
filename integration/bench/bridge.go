package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

const benchSink = "bench"

// nullSink confirms everything at once and notes when.
type nullSink struct {
	count       atomic.Int64
	first, last atomic.Int64 // epoch ns
	target      int64
	reached     chan struct{}
	seen        func(now time.Time, batch []*core.Message) // looks at what comes, unless nil
}

// expect starts a count of n messages again.
func (s *nullSink) expect(n int) {
	s.count.Store(0)
	s.first.Store(0)
	s.target, s.reached = int64(n), make(chan struct{})
}

func (s *nullSink) Deliver(_ context.Context, batch []*core.Message) error {
	at := time.Now()
	if s.seen != nil {
		s.seen(at, batch)
	}
	now := at.UnixNano()
	s.first.CompareAndSwap(0, now)
	if count := s.count.Add(int64(len(batch))); count >= s.target && count-int64(len(batch)) < s.target {
		s.last.Store(now)
		close(s.reached)
	}
	return nil
}

func (s *nullSink) Close() error { return nil }

// bridge is a whole bridge in this process, but for the listeners.
type bridge struct {
	in         *core.Interceptor
	store      *redisstore.Store
	dispatcher *core.Dispatcher
	sink       *nullSink
	stop       func() error
}

// openBridge starts a bridge on the bench's Redis.
func (b *bench) openBridge(ctx context.Context) (*bridge, error) {
	return b.openObserved(ctx, redisstore.Config{}, core.Observer{})
}

func (b *bench) openObserved(ctx context.Context, config redisstore.Config, observer core.Observer) (*bridge, error) {
	config.Addrs = []string{b.redis.addr}
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	sink := &nullSink{}
	sink.expect(1)
	d := &core.Dispatcher{Name: benchSink, Sink: sink}
	whole := core.NewBridge(store, core.Options{Observer: observer}, d)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- whole.Run(ctx) }()
	return &bridge{in: whole.Interceptor, store: store, dispatcher: d, sink: sink,
		stop: func() error { cancel(); return <-ended }}, nil
}

// bytes that bodies share: making them is no part of what is measured.
func body(size int) []byte { return make([]byte, size) }

func message(body []byte, edit func(*core.Message)) *core.Message {
	m := &core.Message{Sink: benchSink, Topic: "t", Body: body}
	edit(m)
	return m
}

// fill parks n messages in batches, as fast as it goes.
func (br *bridge) fill(ctx context.Context, n, size int, edit func(*core.Message)) error {
	const batch = 500
	shared := body(size)
	var next atomic.Int64
	return parallel(8, func() error {
		for next.Add(batch) <= int64(n) {
			messages := make([]*core.Message, batch)
			for i := range messages {
				messages[i] = message(shared, edit)
			}
			for _, r := range br.in.Accept(ctx, messages...) {
				if r.Err != nil {
					return fmt.Errorf("accept: %w", r.Err)
				}
			}
		}
		return nil
	})
}

func in(d time.Duration) func(*core.Message) { return func(m *core.Message) { m.Delay = d } }

func at(t time.Time) func(*core.Message) { return func(m *core.Message) { m.DeliverAt = t } }
