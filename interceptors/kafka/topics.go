package kafkadoor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/intake"
)

var errTopicsChanged = errors.New("topics have changed")

// topicCounts is how many partitions topics have; 0 if there is no such topic. A
// topic of which the broker does not say that for sure is left out.
type topicCounts map[string]int

// existing leaves out topics that there are not: as long as a member of a group
// names one, the library gives no member any partition of any topic.
func (c topicCounts) existing(topics []string) []string {
	return slices.DeleteFunc(slices.Clone(topics), func(topic string) bool {
		partitions, known := c[topic]
		return known && partitions == 0
	})
}

// changed tells whether now is something else. What it leaves out may be as it
// was.
func (c topicCounts) changed(now topicCounts) bool {
	for topic, partitions := range now {
		if before, known := c[topic]; !known || before != partitions {
			return true
		}
	}
	return false
}

func (i *Intake) countTopics(ctx context.Context, client *kafka.Client) (topicCounts, error) {
	answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: i.settings.topics})
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
func (i *Intake) awaitTopics(ctx context.Context, client *kafka.Client) topicCounts {
	trouble := intake.Troubles{Log: i.log.With("intake", i.name)}
	var missing []string
	for pause := time.Duration(0); ctx.Err() == nil; pause = awaitEvery {
		counts, err := i.countTopics(ctx, client)
		if err != nil {
			trouble.Report("can't look up the topics", err)
			wait(ctx, awaitEvery)
			continue
		}
		trouble.Over()
		missing = i.logMissing(counts, missing)
		if len(missing) < len(i.settings.topics) {
			wait(ctx, min(pause, settle))
			return counts
		}
		wait(ctx, awaitEvery)
	}
	return nil
}

// logMissing tells of topics that are not there, if it has not told of the same.
func (i *Intake) logMissing(counts topicCounts, told []string) (missing []string) {
	there := counts.existing(i.settings.topics)
	missing = slices.DeleteFunc(slices.Clone(i.settings.topics), func(topic string) bool { return slices.Contains(there, topic) })
	if len(missing) > 0 && !slices.Equal(missing, told) {
		i.log.Warn("topics do not exist, they are read once they do", "intake", i.name, "topics", missing)
	}
	return missing
}

// watchTopics returns true when others are there than were counted, and false
// when ctx ends.
func (m *membership) watchTopics(ctx context.Context) bool {
	for {
		wait(ctx, watchEvery)
		now, err := m.countTopics(ctx, m.client)
		if ctx.Err() != nil {
			return false
		}
		if err == nil && m.counted.changed(now) {
			wait(ctx, settle)
			return true
		}
	}
}
