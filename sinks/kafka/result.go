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

// codes says what a broker's answer means for the records of one partition. A
// code that is not in it has an unknown outcome.
var codes = map[kafka.Error]answer{
	// Not stored, as the partition has moved or is moving. No message is to
	// blame, however long it lasts.
	kafka.UnknownTopicOrPartition: {class: core.TopicBlocked, reroute: true},
	kafka.LeaderNotAvailable:      {class: core.TopicBlocked, reroute: true},
	kafka.NotLeaderForPartition:   {class: core.TopicBlocked, reroute: true},
	kafka.BrokerNotAvailable:      {class: core.TopicBlocked, reroute: true},
	kafka.ReplicaNotAvailable:     {class: core.TopicBlocked, reroute: true},
	kafka.ListenerNotFound:        {class: core.TopicBlocked, reroute: true},
	kafka.FencedLeaderEpoch:       {class: core.TopicBlocked, reroute: true},
	kafka.UnknownLeaderEpoch:      {class: core.TopicBlocked, reroute: true},
	kafka.KafkaStorageError:       {class: core.TopicBlocked, reroute: true},
	kafka.OffsetNotAvailable:      {class: core.TopicBlocked, reroute: true},
	kafka.UnknownTopicID:          {class: core.TopicBlocked, reroute: true},
	kafka.InconsistentTopicID:     {class: core.TopicBlocked, reroute: true},
	// Not stored, and asking for leaders again does not help.
	kafka.NotEnoughReplicas:            {class: core.TopicBlocked},
	kafka.TopicAuthorizationFailed:     {class: core.TopicBlocked},
	kafka.ThrottlingQuotaExceeded:      {class: core.Retry, sinkWide: true},
	kafka.GroupLoadInProgress:          {class: core.Retry, sinkWide: true},
	kafka.GroupCoordinatorNotAvailable: {class: core.Retry, sinkWide: true},
	kafka.NotCoordinatorForGroup:       {class: core.Retry, sinkWide: true},
	// Stored or not.
	kafka.Unknown:                      {class: core.Unknown},
	kafka.InvalidMessage:               {class: core.Unknown},
	kafka.RequestTimedOut:              {class: core.Unknown},
	kafka.NetworkException:             {class: core.Unknown},
	kafka.NotEnoughReplicasAfterAppend: {class: core.Unknown},
	// Refused because of a record. It need not be this one: see lane.answered.
	kafka.InvalidMessageSize:          {class: core.Permanent},
	kafka.MessageSizeTooLarge:         {class: core.Permanent},
	kafka.InvalidTopic:                {class: core.Permanent},
	kafka.RecordListTooLarge:          {class: core.Permanent},
	kafka.InvalidTimestamp:            {class: core.Permanent},
	kafka.InvalidRequest:              {class: core.Permanent},
	kafka.UnsupportedForMessageFormat: {class: core.Permanent},
	kafka.PolicyViolation:             {class: core.Permanent},
	kafka.InvalidRecord:               {class: core.Permanent},
	// Everything is refused until somebody acts.
	kafka.InvalidRequiredAcks:        {class: core.Blocked, sinkWide: true},
	kafka.ClusterAuthorizationFailed: {class: core.Blocked, sinkWide: true},
	kafka.UnsupportedSASLMechanism:   {class: core.Blocked, sinkWide: true},
	kafka.IllegalSASLState:           {class: core.Blocked, sinkWide: true},
	kafka.UnsupportedVersion:         {class: core.Blocked, sinkWide: true},
	kafka.SecurityDisabled:           {class: core.Blocked, sinkWide: true},
	kafka.SASLAuthenticationFailed:   {class: core.Blocked, sinkWide: true},
	kafka.UnsupportedCompressionType: {class: core.Blocked, sinkWide: true},
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
	v, ok := codes[kafka.Error(code)]
	if !ok {
		v = answer{class: core.Unknown}
	}
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
