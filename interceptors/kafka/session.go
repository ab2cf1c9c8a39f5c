package kafkasource

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// session is the work of one generation of the group: the partitions that are
// ours until it ends.
type session struct {
	*membership
	generation *kafka.Generation
	progress   *progress
	rejecter   *rejecter // nil: there is no reject topic

	// What partitions have in memory together: what was fetched, and what was
	// unpacked of that, of which more than a little may be one's at a time. Who has
	// taken of one may wait for those after it, and for none before.
	fetched, unpacking, large *budget
	pages, chunks             sync.Pool // *page, *chunk
}

func newSession(m *membership, generation *kafka.Generation) *session {
	s := &session{membership: m, generation: generation, progress: newProgress(),
		fetched: newBudget(m.settings.bufferBytes), unpacking: newBudget(m.settings.bufferBytes), large: newBudget(1)}
	if m.settings.rejectTopic != "" {
		s.rejecter = &rejecter{client: m.client, topic: m.settings.rejectTopic}
	}
	return s
}

// run reads all partitions until ctx ends, or with errTopicsChanged or errLogLost,
// and returns when nothing of it is at work any more. Another error ends the
// source.
func (s *session) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var partitions []*partition
	for topic, committed := range s.recall(ctx) {
		for number, at := range committed {
			partitions = append(partitions, s.partition(topic, number, at))
		}
	}
	s.assigned.Set(partitions)
	defer s.assigned.Set(nil)
	s.log.Info("source joined its group", "source", s.name, "group", s.settings.group, "generation", s.generation.ID, "partitions", len(partitions))

	var readers, others sync.WaitGroup
	for _, p := range partitions {
		readers.Go(func() {
			if err := p.run(ctx); err != nil {
				end(err)
			}
		})
	}
	others.Go(func() {
		if s.watchTopics(ctx) {
			end(errTopicsChanged)
		}
	})
	others.Go(func() {
		if err := s.commit(ctx); err != nil {
			end(err)
		}
	})
	<-ctx.Done()
	readers.Wait()
	others.Wait()
	s.commitLast()
	if cause := context.Cause(ctx); !errors.Is(cause, kafka.ErrGenerationEnded) {
		return cause
	}
	return nil
}

func (s *session) partition(topic string, number int, start position) *partition {
	if start.offset < 0 {
		start = position{point: point{s.place(topic, number), -1}}
	}
	p := &partition{session: s, topic: topic, number: number, start: start,
		id:  source.PlaceID("k", s.name, topic, strconv.Itoa(number)) + ":",
		log: s.log.With("source", s.name, "topic", topic, "partition", number)}
	p.Parked.Store(max(start.offset, 0))
	return p
}

// place is where to begin in a partition of which the group has no offset. What
// came to be while we ran is new as a whole, so "latest" does not hold for it.
func (s *session) place(topic string, partition int) int64 {
	if found, known := s.found[topic]; known && partition >= found {
		return kafka.FirstOffset
	}
	return s.settings.start
}
