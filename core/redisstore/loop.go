package redisstore

import (
	"context"
	"sync"
	"time"
)

// loop is what all Serves of a Store share: it renews the leases and sends the
// heartbeats of all sinks in few pipelines, with one subscription and one alarm. Its
// fields belong to run, which waits for no server: one that does not answer must not
// keep what the others hold from being renewed.
type loop struct {
	*Store
	leaseTime  time.Duration // of a lease
	alarm      *alarm
	sinks      map[string]*sinkServer // by name
	heard      subscription
	channel    map[string]*sinkServer // by the channels of each sink
	queued     queues
	posts      chan func() // what was found out in the background
	background sync.WaitGroup
	stop       chan struct{} // closed when no Serve is left
	ended      chan struct{}
}

// queues are the calls that leave when the loop has done all that it knows of, so
// that many leave in one pipeline.
type queues struct {
	beats    []*sinkServer
	requests []*leaseRequest
	releases []*lease
}

func (s *Store) newLoop() (*loop, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	return &loop{Store: s, leaseTime: s.config.Lease, alarm: alarm, sinks: make(map[string]*sinkServer), channel: make(map[string]*sinkServer),
		posts: make(chan func(), 64), stop: make(chan struct{}), ended: make(chan struct{})}, nil
}

// renewalsPerLease is how often a lease is renewed, and a heartbeat sent, in the time
// that it lasts. One that fails is sent again at the next tick.
const (
	renewalsPerLease = 3
	ticksPerRenewal  = 4
)

// renewEvery is how old a renewal becomes. It shows lost wake-ups, too, so it is
// not older than the guard period.
func (l *loop) renewEvery() time.Duration { return min(l.leaseTime/renewalsPerLease, l.config.Guard) }

func (l *loop) run(ctx context.Context) {
	defer close(l.ended)
	l.background.Go(l.alarm.run)
	tick := time.NewTicker(l.renewEvery() / ticksPerRenewal)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-l.stop:
			running = false
		case now := <-tick.C:
			l.turn(ctx, now)
		case note, open := <-l.heard.notes:
			if !open { // the store has been closed, against its contract
				l.heard.notes = nil
			}
			l.hear(note)
		case f := <-l.posts:
			f()
		}
		if len(l.posts) == 0 {
			l.flush(ctx)
		}
	}
	l.finish()
}

// finish waits until everything that runs has ended.
func (l *loop) finish() {
	l.alarm.close()
	l.background.Wait()
	for len(l.posts) > 0 {
		(<-l.posts)()
	}
	l.heard.close()
}

// post has f run by the loop, unless that has ended.
func (l *loop) post(f func()) (posted bool) {
	select {
	case l.posts <- f:
		return true
	case <-l.stop:
		return false
	}
}

func (l *loop) turn(ctx context.Context, now time.Time) {
	l.renew(ctx, now)
	for _, v := range l.sinks {
		v.turn(now)
	}
	l.probe(ctx, now)
	if len(l.sinks) > 0 && l.formats.due() {
		l.background.Go(func() { l.refreshFormats(ctx, l.keeping) })
	}
}

// flush sends what is queued, and ends the Serves that have nothing left to do.
func (l *loop) flush(ctx context.Context) {
	q := l.queued
	l.queued = queues{}
	l.sendBeats(ctx, q.beats)
	l.sendLeaseRequests(ctx, q.requests)
	l.sendReleases(ctx, q.releases)
	for sink, v := range l.sinks {
		if v.stopping && v.finished() {
			l.forget(sink)
			if len(l.sinks) > 0 {
				l.listen(ctx)
			}
			close(v.done)
		}
	}
}

// runInBackground runs calls in the background, within a third of a lease and with a
// pipeline of its own for each server. It is done with each call as soon as that has
// its result: another server may not answer for long.
func (l *loop) runInBackground(ctx context.Context, calls []call, done func(n int)) {
	if len(calls) == 0 {
		return
	}
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.leaseTime/renewalsPerLease)
		defer cancel()
		byServer(ctx, l.keeping, calls, func(p *part) {
			if p.node != nil {
				l.Store.run(ctx, l.keeping, p.calls...)
			}
			for _, n := range p.at {
				done(n)
			}
		})
	})
}
