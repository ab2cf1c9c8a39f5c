package kafkasource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

var errTopicsChanged = errors.New("topics have changed")

// topicCounts is how many partitions topics have; 0 if there is no such topic. A
// topic of which the broker does not say that for sure is left out.
type topicCounts map[string]int

// missing reports that there is no such topic.
func (c topicCounts) missing(topic string) bool {
	partitions, known := c[topic]
	return known && partitions == 0
}

// existing leaves out topics that are missing: as long as a member of a group
// names one, the library gives no member any partition of any topic.
func (c topicCounts) existing(topics []string) []string {
	return slices.DeleteFunc(slices.Clone(topics), c.missing)
}

// changed reports whether now is something else. What it leaves out may be as it
// was.
func (c topicCounts) changed(now topicCounts) bool {
	for topic, partitions := range now {
		if before, known := c[topic]; !known || before != partitions {
			return true
		}
	}
	return false
}

// noteFewest keeps the lower of what it was and what was counted now.
func (c topicCounts) noteFewest(now topicCounts) {
	for topic, partitions := range now {
		if before, known := c[topic]; !known || partitions < before {
			c[topic] = partitions
		}
	}
}

func (m *member) countTopics(ctx context.Context) (topicCounts, error) {
	answer, err := m.client.Metadata(ctx, &kafka.MetadataRequest{Topics: m.settings.topics})
	if err != nil {
		return nil, err
	}
	counts := make(topicCounts)
	for _, t := range answer.Topics {
		if t.Error == nil || errors.Is(t.Error, kafka.UnknownTopicOrPartition) {
			counts[t.Name] = len(t.Partitions)
		}
	}
	return counts, nil
}

const (
	awaitEvery = time.Second
	watchEvery = 5 * time.Second
	// settle is for all brokers to learn what one of them knows, as another than
	// the one that was asked shares the partitions out.
	settle = time.Second
)

// awaitTopics returns the counts when there is any topic, or when ctx ends.
//
// They are from before the group is joined, and partitions are shared out after
// that: what comes to be in between differs from them, and so is found.
func (m *member) awaitTopics(ctx context.Context) topicCounts {
	trouble := source.Troubles{Of: m.parker, Log: m.log.With("source", m.name)}
	for pause := time.Duration(0); ctx.Err() == nil; pause = awaitEvery {
		counts, err := m.countTopics(ctx)
		if err != nil {
			trouble.Report("can't look up the topics", err)
			source.Sleep(ctx, awaitEvery)
			continue
		}
		trouble.Over()
		m.found.noteFewest(counts)
		m.logMissing(counts)
		if len(m.missing) < len(m.settings.topics) {
			source.Sleep(ctx, min(pause, settle))
			return counts
		}
		source.Sleep(ctx, awaitEvery)
	}
	return nil
}

// logMissing reports topics that are not there, if it has not told of the same.
func (m *member) logMissing(counts topicCounts) {
	missing := slices.DeleteFunc(slices.Clone(m.settings.topics), func(topic string) bool { return !counts.missing(topic) })
	if len(missing) > 0 && !slices.Equal(missing, m.missing) {
		m.log.Warn("topics do not exist yet, they are read once they are created", "source", m.name, "topics", missing)
	}
	m.missing = missing
}

// watchTopics returns true when there are others than were shared out, and false
// when ctx ends. Of what another member has shared out we know no better than
// what we counted ourselves; that member looks, too.
func (s *session) watchTopics(ctx context.Context) bool {
	shared, known := s.shares.of(s.settings.topics)
	if !known {
		shared = s.counted
	}
	for {
		source.Sleep(ctx, watchEvery)
		now, err := s.countTopics(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil && shared.changed(now) {
			source.Sleep(ctx, settle)
			return true
		}
	}
}
