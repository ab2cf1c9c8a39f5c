package redisstore

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// server is one Serve: it keeps this instance in the set of those that serve
// the sink, and owns the buckets that fall to it. Its fields belong to the loop
// of run, which waits for no server: one that does not answer must not keep what
// the others hold from being renewed.
type server struct {
	*Store
	sink     string
	work     func(context.Context, core.Bucket) error
	term     time.Duration
	tenures  map[int]*tenure
	claimed  map[int]bool // buckets of which an ownership is being asked for
	passed   bool         // a rebalance has passed some of those over
	beating  bool         // a heartbeat is on its way
	again    bool         // and another one is to follow
	known    bool         // a heartbeat has got through
	stopping bool
	silent   bool // Redis did not answer the last heartbeat, and that was logged
	lost     int  // ownerships since the last turn
	log      *slog.Logger

	// What was found out beside the loop.
	beats  chan call
	claims chan *claim
	ended  chan *tenure
	beside sync.WaitGroup
}

func (s *Store) newServer(sink string, work func(context.Context, core.Bucket) error) *server {
	return &server{Store: s, sink: sink, work: work, term: s.config.Ownership,
		tenures: make(map[int]*tenure), claimed: make(map[int]bool),
		beats: make(chan call, 1), claims: make(chan *claim, s.keys.buckets), ended: make(chan *tenure, s.keys.buckets),
		log: s.config.Log.With("sink", sink, "instance", s.config.Instance)}
}

// Serve implements core.Store.
func (s *Store) Serve(ctx context.Context, sink string, work func(context.Context, core.Bucket) error) error {
	return s.newServer(sink, work).run(ctx)
}

func (v *server) run(ctx context.Context) error {
	// What ends the ownerships must still reach Redis when ctx has ended.
	inner := context.WithoutCancel(ctx)
	pubsub := v.keeping.Subscribe(inner, v.keys.wakeChannel(v.config.Instance, v.sink), v.keys.memberChannel(v.sink))
	defer pubsub.Close()
	heard := pubsub.ChannelWithSubscriptions()
	tick := time.NewTicker(v.term / beatsPerTerm)
	defer tick.Stop()
	stop := ctx.Done()
	v.beat(inner)
	for !v.finished() {
		select {
		case <-stop:
			stop = nil
			v.leave(inner)
		case <-tick.C:
			v.turn(inner)
		case note, open := <-heard:
			if !open { // the store has been closed, against its contract
				heard = nil
			}
			v.hear(inner, note)
		case c := <-v.beats:
			v.beaten(inner, c)
		case c := <-v.claims:
			v.answered(inner, c)
		case t := <-v.ended:
			v.leaveBucket(inner, t)
		}
	}
	v.beside.Wait()
	return nil
}

// finished tells whether nothing is left to do, and nothing owned.
func (v *server) finished() bool {
	return v.stopping && !v.beating && len(v.claimed) == 0 && len(v.tenures) == 0
}

// runBeside runs calls beside the loop, within a third of an ownership and with a
// pipeline of its own for each server. It is done with each call as soon as that has
// its result: another server may not answer for long.
func (v *server) runBeside(ctx context.Context, calls []call, done func(n int)) {
	if len(calls) == 0 {
		return
	}
	v.beside.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, v.term/3)
		defer cancel()
		byServer(ctx, v.keeping, calls, func(p *part) {
			if p.node != nil {
				v.Store.run(ctx, v.keeping, p.calls...)
			}
			for _, n := range p.at {
				done(n)
			}
		})
	})
}

// turn prolongs what is owned, and sees who else is there.
func (v *server) turn(ctx context.Context) {
	if v.lost > 0 {
		v.log.Warn("ownership of buckets was lost, as it was not renewed in time; what was being delivered is delivered again", "buckets", v.lost)
		v.lost = 0
	}
	v.renew(ctx)
	v.beat(ctx)
}

// hear takes what another instance said, or that the line to Redis is back, so
// that something may have gone unheard.
func (v *server) hear(ctx context.Context, note any) {
	switch n := note.(type) {
	case *redis.Subscription:
		v.owned.wakeAll(v.sink)
	case *redis.Message:
		if n.Channel == v.keys.memberChannel(v.sink) {
			if n.Payload != v.config.Instance {
				v.beat(ctx)
			}
			return
		}
		if number, err := strconv.Atoi(n.Payload); err == nil {
			v.owned.wake(v.sink, number)
		}
	}
}

// leave gives everything back. A heartbeat on its way would undo a departure, so
// that one waits for the other.
func (v *server) leave(ctx context.Context) {
	v.stopping = true
	for _, t := range v.tenures {
		t.cancel(errStopping)
	}
	if !v.beating {
		v.depart(ctx)
	}
}
