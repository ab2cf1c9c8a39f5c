package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// sinkServer is one Serve: it keeps this instance among those that serve the sink, and
// the leases of the buckets that fall to it. Its fields belong to the loop.
type sinkServer struct {
	*loop
	sink      string
	work      func(context.Context, core.Bucket) error
	leases    map[int]*lease
	requested map[int]bool  // buckets of which a lease is being asked for
	passed    bool          // a rebalance has passed some of those over
	beating   bool          // a heartbeat is on its way
	again     bool          // and another one is to follow
	silent    bool          // Redis did not answer the last heartbeat
	phase     time.Duration // at which its first leases are renewed, so that sinks take turns
	beatAt    time.Time     // when the last heartbeat was asked for
	aside     bool          // others read what this instance can't, so that no bucket falls to it
	stopping  bool
	departed  bool // the others know that it stops, or can't be told
	settling  int  // buckets that are being handed over
	lost      int  // leases since that was last logged
	done      chan struct{}
	log       *slog.Logger
}

func (l *loop) newSinkServer(sink string, work func(context.Context, core.Bucket) error) *sinkServer {
	return &sinkServer{loop: l, sink: sink, work: work, phase: rand.N(l.renewEvery()), leases: make(map[int]*lease), requested: make(map[int]bool),
		done: make(chan struct{}), log: l.config.Log.With("sink", sink, "instance", l.config.Instance)}
}

// Serve implements core.Store. A sink can't be served twice at the same time.
func (s *Store) Serve(ctx context.Context, sink string, work func(context.Context, core.Bucket) error) error {
	l, err := s.join()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer s.part(l)
	v := l.newSinkServer(sink, work)
	defer v.stopped()
	taken := make(chan bool, 1)
	inner := context.WithoutCancel(ctx)
	l.post(func() { taken <- !l.enter(inner, v) })
	if <-taken {
		return fmt.Errorf("serve: sink %s is already being served", sink)
	}
	<-ctx.Done()
	l.post(v.leave)
	<-v.done
	return nil
}

// join returns the loop that all Serves share; the first starts it.
func (s *Store) join() (*loop, error) {
	s.loopMu.Lock()
	defer s.loopMu.Unlock()
	if s.loop == nil {
		l, err := s.newLoop()
		if err != nil {
			return nil, err
		}
		s.loop = l
		go l.run(context.Background())
	}
	s.loopUsers++
	return s.loop, nil
}

// part is the end of a Serve. The last waits until the loop has ended.
func (s *Store) part(l *loop) {
	s.loopMu.Lock()
	defer s.loopMu.Unlock()
	if s.loopUsers--; s.loopUsers == 0 {
		close(l.stop)
		<-l.ended
		s.loop = nil
	}
}

// enter begins to serve a sink, unless that is served already.
func (l *loop) enter(ctx context.Context, v *sinkServer) bool {
	if l.sinks[v.sink] != nil {
		return false
	}
	l.sinks[v.sink] = v
	for _, name := range l.channelsOf(v.sink) {
		l.channel[name] = v
	}
	l.listen(ctx)
	v.beat()
	return true
}

// forget is the end of serving a sink.
func (l *loop) forget(sink string) {
	delete(l.sinks, sink)
	for _, name := range l.channelsOf(sink) {
		delete(l.channel, name)
	}
}

// leave gives everything back. A heartbeat on its way would undo a departure, so
// that one waits for the other.
func (v *sinkServer) leave() {
	v.stopping = true
	for _, t := range v.leases {
		t.cancel(errStopping)
	}
	v.beat()
}

// finished reports whether nothing is left to do, and nothing owned.
func (v *sinkServer) finished() bool {
	return v.departed && !v.beating && v.settling == 0 && len(v.requested) == 0 && len(v.leases) == 0
}

// turn sends a heartbeat if it is time to, and logs what was lost.
func (v *sinkServer) turn(now time.Time) {
	if !v.silent && now.Sub(v.beatAt) < v.leaseTime/renewalsPerLease {
		return
	}
	for ; v.lost > 0; v.lost-- {
		v.warn("leases of buckets lost because they were not renewed in time; messages in flight are delivered again", v.sink)
	}
	v.beat()
}
