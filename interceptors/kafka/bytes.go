package kafkasource

import (
	"encoding/binary"
	"errors"
)

// errDamaged: what was read is not what Kafka writes.
var errDamaged = errors.New("data is damaged")

// scanner reads values one after the other, big-endian as Kafka writes them.
// What is beyond the end reads as zero, and makes bad true.
type scanner struct {
	rest    []byte
	bad     bool
	compact bool // lengths are written as flexible messages have them
}

// take returns the next n bytes, which stay part of what is read.
func (s *scanner) take(n int) []byte {
	if n < 0 || n > len(s.rest) {
		s.bad, s.rest = true, nil
		return nil
	}
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	return taken
}

func (s *scanner) int8() int8   { return int8(s.number(1)) }
func (s *scanner) int16() int16 { return int16(s.number(2)) }
func (s *scanner) int32() int32 { return int32(s.number(4)) }
func (s *scanner) int64() int64 { return int64(s.number(8)) }

func (s *scanner) number(size int) (n uint64) {
	for _, b := range s.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// varint reads a zigzag number.
func (s *scanner) varint() int64 {
	if len(s.rest) > 0 && s.rest[0] < 0x80 { // most are short
		v := int64(s.rest[0])
		s.rest = s.rest[1:]
		return v>>1 ^ -(v & 1)
	}
	v, n := binary.Varint(s.rest)
	if n <= 0 {
		s.bad, s.rest = true, nil
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

// bytes reads a length and so many bytes; a negative length is null.
func (s *scanner) bytes() []byte {
	n := s.varint()
	switch {
	case n < 0:
		return nil
	case n > int64(len(s.rest)):
		s.bad, s.rest = true, nil
		return nil
	}
	return s.take(int(n))
}

// uvarint reads a number that is not below zero.
func (s *scanner) uvarint() uint64 {
	v, n := binary.Uvarint(s.rest)
	if n <= 0 || v > 1<<31 {
		s.bad, s.rest = true, nil
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

// tags skips what a flexible message may have besides.
func (s *scanner) tags() {
	if !s.compact {
		return
	}
	for n := s.uvarint(); n > 0 && !s.bad; n-- {
		s.uvarint()
		s.take(int(s.uvarint()))
	}
}

// str skips a string with its length before it.
func (s *scanner) str() {
	if s.compact {
		s.take(max(s.length(), 0))
		return
	}
	s.take(max(int(s.int16()), 0))
}

// length reads how many bytes or elements follow; null is -1.
func (s *scanner) length() int {
	if s.compact {
		return int(s.uvarint()) - 1
	}
	return int(s.int32())
}

// count reads the length of an array whose elements have at least size bytes.
func (s *scanner) count(size int) int {
	n := s.length()
	if n > len(s.rest)/size {
		s.bad, s.rest = true, nil
		return 0
	}
	return max(n, 0)
}
