package kafkasource

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// readCommitted leaves out what is not, or not yet, part of a committed
// transaction.
const readCommitted = 1

// fetchByID is the first version that asks for a topic by its ID: what is deleted, or
// made again under the same name, is an error then.
const fetchByID = 13

// request asks for what there is of a partition from an offset on.
type request struct {
	topic     string
	id        topicID // none: the topic is asked for by its name
	partition int
	offset    int64
	epoch     int32 // of the record before; with an ID, the broker reports if it has another there. -1: not known
	most      int   // bytes
}

func (r *request) byName() *fetch.Request {
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(maxWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(r.most),
		IsolationLevel: readCommitted, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: r.topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(r.partition), CurrentLeaderEpoch: -1, FetchOffset: r.offset, LogStartOffset: -1, PartitionMaxBytes: int32(r.most)}}}},
	}
}

// byID appends the request in version fetchByID, which the library does not know.
func (r *request) byID(b []byte) []byte {
	put := binary.BigEndian
	b = put.AppendUint32(b, 0xffffffff) // no replica
	b = put.AppendUint32(b, uint32(maxWait.Milliseconds()))
	b = put.AppendUint32(b, 1) // bytes at least
	b = put.AppendUint32(b, uint32(r.most))
	b = append(b, readCommitted)
	b = put.AppendUint32(b, 0)          // no session
	b = put.AppendUint32(b, 0xffffffff) // nor a new one
	b = append(b, lenOf(1))
	b = append(b, r.id[:]...)
	b = append(b, lenOf(1))
	b = put.AppendUint32(b, uint32(r.partition))
	b = put.AppendUint32(b, 0xffffffff) // whatever the epoch of the leader
	b = put.AppendUint64(b, uint64(r.offset))
	b = put.AppendUint32(b, uint32(r.epoch))
	b = put.AppendUint64(b, 0xffffffffffffffff) // no log of ours
	b = put.AppendUint32(b, uint32(r.most))
	return append(b, noTags, noTags, lenOf(0), lenOf(0), noTags) // nothing to forget, in no rack
}

// answer is what a broker says of one partition.
type answer struct {
	end     int64 // the offset after the last record that there is
	aborted []aborted
	records []byte // record batches; of the last one maybe a part only
	cut     bool   // the record before the offset is not the one that was asked for,
	common  point  // and the logs agree up to here
}

// point is a point in a log: an offset, and the epoch of the leader that wrote the
// record before, -1 if that is not known.
type point struct {
	offset int64
	epoch  int32
}

// aborted is a transaction whose records are to be left out, from first up to
// its end marker.
type aborted struct{ producer, first int64 }

// decodeAnswer reads an answer to a request for one partition. records shares
// memory with data. What the broker reports as an error is a kafka.Error.
func decodeAnswer(data []byte, version int16) (a answer, err error) {
	s := scanner{rest: data, compact: version >= fetchByID}
	s.tags()
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
	if version >= fetchByID {
		s.take(len(topicID{}))
	} else {
		s.str()
	}
	if s.count(1) != 1 {
		return a, errDamaged
	}
	err = a.readPartition(&s, version)
	return a, err
}

func (a *answer) readPartition(s *scanner, version int16) error {
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
		s.tags()
	}
	if version >= 11 {
		s.int32() // a replica that is nearer
	}
	size := s.length()
	if code != 0 {
		return kafka.Error(code)
	}
	if s.bad {
		return errDamaged
	}
	a.records = s.take(min(max(size, 0), len(s.rest)))
	a.readCut(s)
	return nil
}

// readCut reads what follows the records, if that was not cut off with some of
// them: there are none where the log was cut.
func (a *answer) readCut(s *scanner) {
	const divergingEpoch = 0
	if !s.compact || len(a.records) > 0 {
		return
	}
	for range s.uvarint() {
		tag, tagged := s.uvarint(), scanner{}
		tagged.rest = s.take(int(s.uvarint()))
		if tag == divergingEpoch && !s.bad {
			a.common.epoch, a.common.offset = tagged.int32(), tagged.int64()
			a.cut = !tagged.bad
		}
		if s.bad {
			return
		}
	}
}

// The few values of flexible messages that we write: lengths count from one, and
// fields that not everybody knows follow at the end.
const noTags = 0

func lenOf(n byte) byte { return n + 1 }

// head begins a flexible request; its size is filled in when it is sent.
func (c *conn) head(key protocol.ApiKey, version int16) []byte {
	put := binary.BigEndian
	c.lastID++
	b := put.AppendUint16(make([]byte, 4, 256), uint16(key))
	b = put.AppendUint16(b, uint16(version))
	b = put.AppendUint32(b, uint32(c.lastID))
	b = put.AppendUint16(b, uint16(len(c.ClientID)))
	return append(append(b, c.ClientID...), noTags)
}
