package kafkadoor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// progress gathers how far partitions are parked, so that one commit serves
// many.
type progress struct {
	mu   sync.Mutex
	open map[string]map[int]int64 // not yet committed
	lost map[string]bool          // topics that nothing is committed of any more
	wake chan struct{}
}

func newProgress() *progress {
	return &progress{open: make(map[string]map[int]int64), lost: make(map[string]bool), wake: make(chan struct{}, 1)}
}

// mark says that all before offset is parked or rejected.
func (p *progress) mark(topic string, partition int, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost[topic] {
		return
	}
	if p.open[topic] == nil {
		p.open[topic] = make(map[int]int64)
	}
	p.open[topic][partition] = offset
	p.poke()
}

// forget drops all marks of a topic, and those that are still to come: they are
// of a log that is no more, and may lie within the one that has taken its place.
// It returns true the first time.
func (p *progress) forget(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.lost[topic]
	p.lost[topic] = true
	delete(p.open, topic)
	return first
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
	trouble := intake.Troubles{Log: s.log.With("intake", s.name)}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.progress.wake:
		}
		taken := s.progress.take()
		pause := commitPause
		err := s.generation.CommitOffsets(taken)
		switch {
		case errors.Is(err, kafka.UnknownTopicOrPartition):
			// Which one is not told, and to ask could commit an old offset to a new
			// log. What is read twice by this is known by its IDs.
			for topic := range taken {
				s.progress.forget(topic)
			}
			s.log.Error("a topic is no more, joining anew", "intake", s.name, "topics", slices.Sorted(maps.Keys(taken)), "err", err)
			return errLogLost
		case err != nil:
			trouble.Report("can't commit", err)
			s.progress.putBack(taken)
			s.progress.poke()
			pause = time.Second
		default:
			trouble.Over()
		}
		select {
		case <-ctx.Done():
			return nil
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
