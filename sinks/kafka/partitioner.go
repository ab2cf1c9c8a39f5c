package kafka

import "sync/atomic"

// partitioner chooses partitions for messages that do not say where to go.
type partitioner struct {
	turn atomic.Uint32
}

// keyed returns the partition, of n, of a message with this key, as the Java
// client does: murmur2 without its sign bit, modulo n. An empty key counts.
func keyed(key []byte, n int) int32 {
	return int32(murmur2(key) & 0x7fffffff % uint32(n))
}

// next returns the partition for the messages without a key of one batch: the
// next in turn that has a leader, or if none has, just the next.
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

// murmur2 is the 32-bit MurmurHash2 with the seed that Kafka's clients share.
func murmur2(data []byte) uint32 {
	const (
		seed     = 0x9747b28c
		multiply = 0x5bd1e995
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= multiply
		k ^= k >> 24
		h = h*multiply ^ k*multiply
	}
	if len(data) > 0 {
		var rest uint32
		for i := len(data) - 1; i >= 0; i-- {
			rest = rest<<8 | uint32(data[i])
		}
		h = (h ^ rest) * multiply
	}
	h ^= h >> 13
	h *= multiply
	return h ^ h>>15
}
