package kafkasource

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// topicID tells a topic from others that have or had the same name. Kafka 2.8 and
// newer give it.
type topicID [16]byte

func (id topicID) none() bool { return id == topicID{} }

// note is id as it stands beside an offset that is committed.
func (id topicID) note() string {
	if id.none() {
		return ""
	}
	return noteBegin + hex.EncodeToString(id[:])
}

const noteBegin = "topic-id "

// readNote reads what note has written; what others have written is none.
func readNote(note string) (id topicID) {
	if len(note) == len(noteBegin)+hex.EncodedLen(len(id)) && note[:len(noteBegin)] == noteBegin {
		if _, err := hex.Decode(id[:], []byte(note[len(noteBegin):])); err != nil {
			return topicID{}
		}
	}
	return id
}

// metadataWithIDs is the version of metadata that is asked for; brokers that know
// fetchByID know it.
const metadataWithIDs = 12

// maxMetadata bounds what of an answer is kept; what is wanted stands in front.
const maxMetadata = 1 << 20

// askForID returns the ID of a topic, none if it has no ID, as the broker that is
// asked knows it. That one must be leader of what is fetched then: another may not
// yet, or not any more, know the same topic under the name.
func (c *conn) askForID(topic string) (topicID, error) {
	b := append(c.head(protocol.Metadata, metadataWithIDs), lenOf(1))
	b = append(b, make([]byte, len(topicID{}))...) // not by ID
	b = binary.AppendUvarint(b, uint64(len(topic))+1)
	b = append(b, topic...)
	b = append(b, noTags, 0, 0, noTags) // does not make it, nor ask what is allowed
	answer, err := c.exchange(b, maxMetadata, func(n int) ([]byte, error) { return make([]byte, n), nil })
	if err != nil {
		return topicID{}, err
	}
	return decodeID(answer)
}

func decodeID(data []byte) (id topicID, err error) {
	s := scanner{rest: data, compact: true}
	s.tags()
	s.int32()                           // throttled for
	for range s.count(len("id,port")) { // brokers
		s.int32()
		s.str()
		s.int32()
		s.str() // rack
		s.tags()
	}
	s.str() // cluster
	s.int32()
	if s.count(1) != 1 {
		return id, errDamaged
	}
	code := s.int16()
	s.str()
	copy(id[:], s.take(len(id)))
	if code != 0 {
		return id, kafka.Error(code)
	}
	if s.bad {
		return id, errDamaged
	}
	return id, nil
}
