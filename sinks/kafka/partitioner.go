package kafka

import (
	"sync/atomic"

	"github.com/segmentio/kafka-go"
)

// partitioner chooses partitions for messages that do not say where to go.
type partitioner struct {
	turn atomic.Uint32
}

// keyed returns the partition, of numbers, of a message with this key, as the Java
// client does. An empty key counts.
func keyed(key []byte, numbers []int) int32 {
	return int32(kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: key}, numbers...))
}

// next returns the partition for the messages without a key of one batch: the
// next in turn that has a leader, or if none has, just the next. Balancers of kafka-go
// know no batches and no leaders.
func (p *partitioner) next(partitions []partition) int32 {
	n := uint32(len(partitions))
	first := p.turn.Add(1)
	for i := range n {
		if at := (first + i) % n; partitions[at].leader != "" {
			return int32(at)
		}
	}
	return int32(first % n)
}
