package kafkasource

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// position is how far a partition is parked, and of which topic that is. The group
// keeps all of it: an offset alone could be of a log that no longer exists.
type position struct {
	topicID
	point
}

// positions are those of topics and partitions.
type positions map[string]map[int]position

func (p positions) set(topic string, partition int, at position) {
	if p[topic] == nil {
		p[topic] = make(map[int]position)
	}
	p[topic][partition] = at
}

// commitPositions commits as the generation's own method does, which knows offsets
// only. It returns the topics that no longer exist.
func (s *session) commitPositions(taken positions) (gone []string, err error) {
	if len(taken) == 0 {
		return nil, nil
	}
	const asTheBrokerIsSet = -1
	ask := &offsetcommit.Request{GroupID: s.generation.GroupID, GenerationID: s.generation.ID, MemberID: s.generation.MemberID, RetentionTimeMs: asTheBrokerIsSet}
	for topic, partitions := range taken {
		t := offsetcommit.RequestTopic{Name: topic}
		for number, at := range partitions {
			t.Partitions = append(t.Partitions, offsetcommit.RequestPartition{PartitionIndex: int32(number),
				CommittedOffset: at.offset, CommittedLeaderEpoch: at.epoch, CommittedMetadata: at.note()})
		}
		ask.Topics = append(ask.Topics, t)
	}
	answer, err := s.ask(context.Background(), ask)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.(*offsetcommit.Response).Topics {
		for _, p := range t.Partitions {
			if code := kafka.Error(p.ErrorCode); code != 0 && isGone(code) {
				gone = append(gone, t.Name)
				break
			} else if code != 0 && err == nil {
				err = fmt.Errorf("topic %s, partition %d: %w", t.Name, p.PartitionIndex, code)
			}
		}
	}
	return gone, err
}

// recall returns what the group has of the partitions that are ours; an offset of -1
// is none. It tries until ctx ends, and then returns nothing.
func (s *session) recall(ctx context.Context) positions {
	trouble := source.Troubles{Of: s.parker, Log: s.log.With("source", s.name)}
	for ctx.Err() == nil {
		committed, err := s.committed(ctx)
		if err == nil {
			trouble.Over()
			return committed
		}
		trouble.Report("can't get the group's offsets", err)
		source.Sleep(ctx, joinBackoff)
	}
	return nil
}

func (s *session) committed(ctx context.Context) (positions, error) {
	ask := &offsetfetch.Request{GroupID: s.generation.GroupID, Topics: []offsetfetch.RequestTopic{}}
	for topic, assigned := range s.generation.Assignments {
		t := offsetfetch.RequestTopic{Name: topic}
		for _, a := range assigned {
			t.PartitionIndexes = append(t.PartitionIndexes, int32(a.ID))
		}
		ask.Topics = append(ask.Topics, t)
	}
	if len(ask.Topics) == 0 {
		return nil, nil
	}
	answer, err := s.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	told := answer.(*offsetfetch.Response)
	if told.ErrorCode != 0 {
		return nil, kafka.Error(told.ErrorCode)
	}
	all := make(positions)
	for _, t := range told.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("topic %s, partition %d: %w", t.Name, p.PartitionIndex, kafka.Error(p.ErrorCode))
			}
			at := position{topicID: readNote(p.Metadata), point: point{p.CommittedOffset, p.ComittedLeaderEpoch}}
			if at.none() { // not committed by us: kafka-go gives 0 for every epoch
				at.epoch = -1
			}
			all.set(t.Name, int(p.PartitionIndex), at)
		}
	}
	return all, nil
}

// ask sends a request to the coordinator of the group.
func (s *session) ask(ctx context.Context, request kafka.Request) (kafka.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.RequestTimeout)
	defer cancel()
	return s.client.Transport.RoundTrip(ctx, s.client.Addr, request)
}
