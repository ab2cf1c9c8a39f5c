package kafkadoor

import (
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// readCommitted leaves out what is not, or not yet, part of a committed
// transaction.
const readCommitted = 1

// request asks for what there is from an offset on.
func (s *settings) request(topic string, partition int, offset int64) *fetch.Request {
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(maxWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(s.fetchBytes),
		IsolationLevel: readCommitted, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: int32(s.fetchBytes)}}}},
	}
}

// answer is what a broker says of one partition.
type answer struct {
	end     int64 // the offset after the last record that there is
	aborted []aborted
	records []byte // record batches; of the last one maybe a part only
}

// aborted is a transaction whose records are to be left out, from first up to
// its end marker.
type aborted struct{ producer, first int64 }

// decodeAnswer reads an answer to a request for one partition. records shares
// memory with data. What the broker reports as an error is a kafka.Error.
func decodeAnswer(data []byte, version int16) (a answer, err error) {
	s := scanner{rest: data}
	s.int32() // throttled for
	if version >= 7 {
		if code := s.int16(); code != 0 {
			return a, kafka.Error(code)
		}
		s.int32() // session
	}
	if s.count(1) != 1 {
		return a, errDamaged
	}
	s.str()
	if s.count(1) != 1 {
		return a, errDamaged
	}
	s.int32() // partition
	code := s.int16()
	a.end = s.int64()
	if stable := s.int64(); stable >= 0 {
		a.end = min(a.end, stable)
	}
	if version >= 5 {
		s.int64() // start of the log
	}
	const abortedLen = 16
	for range s.count(abortedLen) {
		a.aborted = append(a.aborted, aborted{producer: s.int64(), first: s.int64()})
	}
	if version >= 11 {
		s.int32() // a replica that is nearer
	}
	size := int(s.int32())
	if code != 0 {
		return a, kafka.Error(code)
	}
	if s.bad {
		return a, errDamaged
	}
	a.records = s.rest[:min(max(size, 0), len(s.rest))]
	return a, nil
}
