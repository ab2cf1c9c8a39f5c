package kafka

import (
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/delaybridge/delaybridge/core"
)

// answer is what became of one message.
type answer struct {
	err   error // nil: the broker has confirmed it
	class core.Class
	// sinkWide: the trouble is with a broker or with us, not with this message,
	// its topic or its partition.
	sinkWide bool
	// reroute: it was not stored, and another broker may lead the partition by
	// now, so that asking and sending again is worth it.
	reroute bool
}

// confirmed is the result on a message that all in-sync replicas have.
func confirmed() answer { return answer{} }

// unsent is the result on messages that have not left us.
func unsent(err error) answer {
	return answer{err: err, class: core.Retry, sinkWide: true}
}

// unclear is the result on messages that have left us, and of which no more is
// known because of err.
func unclear(err error) answer {
	return answer{err: err, class: core.Unknown, sinkWide: true}
}

// topicTrouble is the result on messages whose topic or partition is to blame.
func topicTrouble(err error) answer {
	return answer{err: err, class: core.TopicBlocked}
}

// classified is the error for the engine; nil if the message is confirmed.
func (v answer) classified() error { return core.Classify(v.class, v.err) }

// meaning says what a broker's answer means for the records of one partition.
func meaning(code kafka.Error) answer {
	switch code {
	// Not stored, as the partition has moved or is moving. No message is to
	// blame, however long it lasts.
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.BrokerNotAvailable,
		kafka.ReplicaNotAvailable, kafka.ListenerNotFound, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch,
		kafka.KafkaStorageError, kafka.OffsetNotAvailable, kafka.UnknownTopicID, kafka.InconsistentTopicID:
		return answer{class: core.TopicBlocked, reroute: true}
	// Not stored, and asking for leaders again does not help.
	case kafka.NotEnoughReplicas, kafka.TopicAuthorizationFailed:
		return answer{class: core.TopicBlocked}
	case kafka.ThrottlingQuotaExceeded, kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup:
		return answer{class: core.Retry, sinkWide: true}
	// Refused because of a record. It need not be this one: see lane.answered.
	case kafka.MessageSizeTooLarge, kafka.InvalidMessageSize, kafka.RecordListTooLarge, kafka.InvalidTopic, kafka.InvalidTimestamp,
		kafka.InvalidRequest, kafka.InvalidRecord, kafka.UnsupportedForMessageFormat, kafka.PolicyViolation:
		return answer{class: core.Permanent}
	// Everything is refused until somebody acts.
	case kafka.InvalidRequiredAcks, kafka.ClusterAuthorizationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState,
		kafka.UnsupportedVersion, kafka.SecurityDisabled, kafka.SASLAuthenticationFailed, kafka.UnsupportedCompressionType:
		return answer{class: core.Blocked, sinkWide: true}
	}
	// Stored or not: RequestTimedOut, NotEnoughReplicasAfterAppend, and all others.
	return answer{class: core.Unknown}
}

// classifyAnswer says what the answer about a partition means for the records sent to
// it. An error with an offset came up after the leader had written the records,
// while it waited for its replicas: as when it is not the leader any more, and
// the next one may have them or not.
func classifyAnswer(r route, answer *produce.ResponsePartition) answer {
	v := classify(answer.ErrorCode, answer.ErrorMessage, r.topic, r.partition)
	if v.err != nil && answer.BaseOffset >= 0 {
		v.class, v.sinkWide, v.reroute = core.Unknown, false, false
	}
	return v
}

// classify says what the answer code means for the records sent to a partition.
func classify(code int16, text, topic string, number int32) answer {
	if code == 0 {
		return confirmed()
	}
	v := meaning(kafka.Error(code))
	v.err = answerError{code: kafka.Error(code), text: text, topic: topic, partition: number}
	return v
}

// answerError is an error code in the broker's answer about a partition, or
// about the topic if partition is negative.
type answerError struct {
	code      kafka.Error
	text      string
	topic     string
	partition int32
}

func (e answerError) Error() string {
	where := "topic " + e.topic
	if e.partition >= 0 {
		where = fmt.Sprintf("partition %d of %s", e.partition, e.topic)
	}
	if e.text != "" && e.text != e.code.Description() {
		return fmt.Sprintf("%s: %s: %s", where, e.code.Title(), core.Shorten(e.text, 200))
	}
	return fmt.Sprintf("%s: %s (code %d)", where, e.code.Title(), int(e.code))
}

func (e answerError) Unwrap() error { return e.code }
