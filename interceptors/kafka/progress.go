package kafkasource

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// progress gathers how far partitions are parked, so that one commit serves
// many.
type progress struct {
	mu   sync.Mutex
	open positions       // not yet committed
	lost map[string]bool // topics that nothing is committed of any more
	gone map[string]bool // those of them that were deleted
	wake chan struct{}
}

func newProgress() *progress {
	return &progress{open: make(positions), lost: make(map[string]bool), gone: make(map[string]bool), wake: make(chan struct{}, 1)}
}

// mark says that all before at is parked or rejected.
func (p *progress) mark(topic string, partition int, at position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost[topic] {
		return
	}
	p.open.set(topic, partition, at)
	p.poke()
}

// forget drops all marks of a topic, and those that are still to come: they are
// of a log that no longer exists, and may lie within the one that has taken its place.
// It returns true the first time.
func (p *progress) forget(topic string, gone bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.lost[topic]
	p.lost[topic] = true
	if gone {
		p.gone[topic] = true
	}
	delete(p.open, topic)
	return first
}

func (p *progress) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

func (p *progress) take() positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.open
	p.open = make(positions)
	return taken
}

// putBack returns what could not be committed, unless there is newer.
func (p *progress) putBack(taken positions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, offsets := range taken {
		if p.lost[topic] {
			continue
		}
		maps.Copy(offsets, p.open[topic])
		p.open[topic] = offsets
	}
}

// commitPause bounds how many commits there are under load.
const commitPause = 50 * time.Millisecond

// commit commits what is marked until ctx ends; nil then. With errLogLost one of
// the topics was not there.
func (s *session) commit(ctx context.Context) error {
	trouble := source.Troubles{Of: s.parker, Log: s.log.With("source", s.name)}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-s.progress.wake:
		}
		taken := s.progress.take()
		pause := commitPause
		gone, err := s.commitPositions(taken)
		switch {
		case len(gone) > 0:
			for _, topic := range gone {
				s.progress.forget(topic, true)
			}
			s.log.Error("topics no longer exist, rejoining the group", "source", s.name, "topics", gone)
			return errLogLost
		case err != nil:
			trouble.Report("can't commit", err)
			s.progress.putBack(taken)
			s.progress.poke()
			pause = time.Second
		default:
			trouble.Over()
		}
		source.Sleep(ctx, pause)
	}
	return nil
}

// commitLast commits what is left at the end. If that fails, those records are
// read again and known by their IDs.
func (s *session) commitLast() {
	gone, err := s.commitPositions(s.progress.take())
	if err != nil || len(gone) > 0 {
		s.log.Warn("last commit of a generation failed, its records will be read again", "source", s.name, "topics_gone", gone, "err", err)
	}
}
