package kafka

import (
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// request is what one produce request carries: for each partition one set.
type request struct {
	sets     []*set
	byRoute  map[route]*set
	size     int
	maxBatch int
}

// set is the records for one partition; they make up one record batch.
type set struct {
	route
	chunks []*chunk
	size   int
	full   bool
}

// maxRequestBytes bounds a request, well below the 100 MiB that brokers take. A
// single set may be larger.
const maxRequestBytes = 16 << 20

func newRequest(maxBatch int) *request {
	return &request{byRoute: make(map[route]*set), maxBatch: maxBatch}
}

// take reports whether the chunk can leave the queue: because it is in the request
// now, or because nobody waits for it any more. Once a chunk of a partition has
// to stay, those behind it stay too.
func (r *request) take(c *chunk) bool {
	s := r.byRoute[c.route]
	if s == nil {
		s = &set{route: c.route, size: batchHeadBytes}
		r.byRoute[c.route] = s
	}
	crowded := len(s.chunks) > 0 && (c.alone || s.size+c.size > r.maxBatch)
	tooMuch := len(r.sets) > 0 && r.size+c.size > maxRequestBytes
	if s.full || crowded || tooMuch {
		s.full = true
		return false
	}
	if !c.begin() {
		return true
	}
	if len(s.chunks) == 0 {
		r.sets = append(r.sets, s)
	}
	s.chunks = append(s.chunks, c)
	s.size += c.size
	s.full = c.alone
	r.size += c.size
	return true
}

// encode makes the request; it can be sent once.
func (r *request) encode(compression protocol.Attributes, acks time.Duration) *produce.Request {
	out := &produce.Request{Acks: int16(kafka.RequireAll), Timeout: int32(acks.Milliseconds())}
	topics := make(map[string]int, len(r.sets))
	for _, s := range r.sets {
		at, ok := topics[s.topic]
		if !ok {
			at = len(out.Topics)
			topics[s.topic] = at
			out.Topics = append(out.Topics, produce.RequestTopic{Topic: s.topic})
		}
		out.Topics[at].Partitions = append(out.Topics[at].Partitions, produce.RequestPartition{
			Partition: s.partition,
			RecordSet: protocol.RecordSet{Attributes: compression, Records: &recordReader{chunks: s.chunks}},
		})
	}
	return out
}

func (s *set) settle(v answer) {
	for _, c := range s.chunks {
		c.settle(v)
	}
}

func (s *set) messages() int {
	n := 0
	for _, c := range s.chunks {
		n += len(c.places)
	}
	return n
}
