package redisstore

import "sync"

// numbers guesses the next sequence number of each bucket, so that a
// message can be sent as it is to be stored. Only Redis gives the numbers out:
// a wrong guess is put right there and costs a little more work.
type numbers struct {
	mu   sync.Mutex
	next map[bucketAddress]int64
}

type bucketAddress struct {
	sink   string
	bucket int
}

// reserve returns the first of n numbers that are probably next.
func (g *numbers) reserve(sink string, bucket, n int) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = make(map[bucketAddress]int64)
	}
	at := bucketAddress{sink, bucket}
	first := max(1, g.next[at])
	g.next[at] = first + int64(n)
	return first
}

// learn takes the last number that Redis says it has given out.
func (g *numbers) learn(sink string, bucket int, last int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		g.next[bucketAddress{sink, bucket}] = last + 1
	}
}

// appendSeq appends a sequence number as it is stored.
func appendSeq(b []byte, seq int64) []byte {
	return append(b, byte(seq>>32), byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq))
}
