package kafkadoor

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// progress gathers how far partitions are parked, so that one commit serves
// many.
type progress struct {
	mu   sync.Mutex
	open map[string]map[int]int64 // not yet committed
	wake chan struct{}
}

func newProgress() *progress {
	return &progress{open: make(map[string]map[int]int64), wake: make(chan struct{}, 1)}
}

// mark says that all before offset is parked or rejected.
func (p *progress) mark(topic string, partition int, offset int64) {
	p.mu.Lock()
	if p.open[topic] == nil {
		p.open[topic] = make(map[int]int64)
	}
	p.open[topic][partition] = offset
	p.mu.Unlock()
	p.poke()
}

func (p *progress) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

func (p *progress) take() map[string]map[int]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.open
	p.open = make(map[string]map[int]int64)
	return taken
}

// putBack returns what could not be committed, unless there is newer.
func (p *progress) putBack(taken map[string]map[int]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, offsets := range taken {
		maps.Copy(offsets, p.open[topic])
		p.open[topic] = offsets
	}
}

// commitPause bounds how many commits there are under load.
const commitPause = 50 * time.Millisecond

// commit commits what is marked until ctx ends.
func (s *session) commit(ctx context.Context) {
	trouble := intake.Troubles{Log: s.log.With("intake", s.name)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.progress.wake:
		}
		taken := s.progress.take()
		pause := commitPause
		if err := s.generation.CommitOffsets(taken); err != nil {
			trouble.Report("can't commit", err)
			s.progress.putBack(taken)
			s.progress.poke()
			pause = time.Second
		} else {
			trouble.Over()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// commitLast commits what is left at the end. If that fails, those records are
// read again and known by their IDs.
func (s *session) commitLast() {
	if err := s.generation.CommitOffsets(s.progress.take()); err != nil {
		s.log.Warn("last commit of a generation failed, its records will be read again", "intake", s.name, "err", err)
	}
}
