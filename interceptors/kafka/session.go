package kafkadoor

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// session is the work of one generation of the group: the partitions that are
// ours until it ends.
type session struct {
	*Intake
	generation *kafka.Generation
	client     *kafka.Client
	progress   *progress
	rejecter   *rejecter // nil: there is no reject topic
}

func newSession(i *Intake, generation *kafka.Generation, client *kafka.Client) *session {
	s := &session{Intake: i, generation: generation, client: client, progress: newProgress()}
	if i.settings.rejectTopic != "" {
		s.rejecter = &rejecter{client: client, topic: i.settings.rejectTopic}
	}
	return s
}

var errPartitionsChanged = errors.New("number of partitions has changed")

// run reads all partitions until ctx ends, or the number of partitions changes,
// and returns when nothing of it is at work any more. An error ends the intake.
func (s *session) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var partitions []*partition
	for topic, assigned := range s.generation.Assignments {
		for _, a := range assigned {
			partitions = append(partitions, s.partition(topic, a))
		}
	}
	s.setPartitions(partitions)
	defer s.setPartitions(nil)
	s.log.Info("intake has its partitions", "intake", s.name, "group", s.settings.group, "generation", s.generation.ID, "partitions", len(partitions))

	var readers, others sync.WaitGroup
	for _, p := range partitions {
		readers.Go(func() {
			if err := p.run(ctx); err != nil {
				end(err)
			}
		})
	}
	others.Go(func() { s.watch(ctx, end) })
	others.Go(func() { s.commit(ctx) })
	<-ctx.Done()
	readers.Wait()
	others.Wait()
	s.commitLast()
	if cause := context.Cause(ctx); !errors.Is(cause, kafka.ErrGenerationEnded) && !errors.Is(cause, errPartitionsChanged) {
		return cause
	}
	return nil
}

func (s *session) partition(topic string, a kafka.PartitionAssignment) *partition {
	number := strconv.Itoa(a.ID)
	p := &partition{session: s, topic: topic, number: a.ID, start: a.Offset,
		id:  intake.SourceID("k", s.name, topic, number) + ":",
		log: s.log.With("intake", s.name, "topic", topic, "partition", a.ID)}
	p.parked.Store(max(a.Offset, 0))
	return p
}

const watchEvery = 5 * time.Second

// watch ends the session when a topic has more partitions, or appears, so that
// the group shares them out anew.
func (s *session) watch(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	known := s.count(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := s.count(ctx)
		for topic, partitions := range now {
			before, ok := known[topic]
			if !ok {
				known[topic] = partitions
			} else if before != partitions {
				end(errPartitionsChanged)
			}
		}
	}
}

// count returns how many partitions topics have; a topic that is not known for
// sure is left out.
func (s *session) count(ctx context.Context) map[string]int {
	counts := make(map[string]int)
	answer, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: s.settings.topics})
	if err != nil {
		return counts
	}
	for _, t := range answer.Topics {
		if t.Error == nil || errors.Is(t.Error, kafka.UnknownTopicOrPartition) {
			counts[t.Name] = len(t.Partitions)
		}
	}
	return counts
}
