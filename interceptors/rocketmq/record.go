package rocketmqsource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// record is one message as a broker stores it. Its bytes are part of what it
// was read from.
type record struct {
	offset     int64 // in the queue
	flags      uint32
	born       int64 // ms since 1970, by the producer's clock
	stored     int64 // by the broker's
	body       []byte
	properties []byte // name, 1, value, 2, and so on
}

var errDamaged = errors.New("message can't be read: the broker's answer is damaged")

const (
	magicV1 = 0xdaa320a7
	magicV2 = 0xdaa320ab // has room for longer topics

	flagCompressed = 1 << 0
	flagBornV6     = 1 << 4
	flagStoredV6   = 1 << 5
	flagInner      = 1 << 7 // the body is messages itself
	compressionOf  = 7 << 8
	flagsOfBody    = flagCompressed | compressionOf

	propertyBegin = 1
	propertyEnd   = 2
)

// scanner reads what a broker has put one after the other. bad is set when it
// is less than there should be; everything is then zero.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) take(n int) []byte {
	if n < 0 || n > len(s.rest) {
		s.bad, s.rest = true, nil
		return nil
	}
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	return taken
}

func (s *scanner) int8() int {
	if b := s.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (s *scanner) uint16() int {
	if b := s.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (s *scanner) uint32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) int64() int64 {
	if b := s.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// nextRecord reads the first record of data, and returns what is after it.
func nextRecord(data []byte) (r record, rest []byte, err error) {
	whole := scanner{rest: data}
	size := int(whole.uint32())
	s := scanner{rest: whole.take(size - 4)}
	magic := s.uint32()
	if whole.bad || magic != magicV1 && magic != magicV2 {
		return r, nil, errDamaged
	}
	s.take(4 + 4 + 4) // checksum, queue, and a flag of the producer's
	r.offset = s.int64()
	s.int64() // in the log
	r.flags = s.uint32()
	r.born = s.int64()
	s.take(hostLength(r.flags & flagBornV6))
	r.stored = s.int64()
	s.take(hostLength(r.flags & flagStoredV6))
	s.take(4 + 8) // times consumed, and of a transaction
	r.body = s.take(int(s.uint32()))
	if magic == magicV1 {
		s.take(s.int8())
	} else {
		s.take(s.uint16())
	}
	r.properties = s.take(s.uint16())
	if s.bad {
		return r, nil, errDamaged
	}
	return r, whole.rest, nil
}

func hostLength(v6 uint32) int {
	if v6 != 0 {
		return 16 + 4
	}
	return 4 + 4
}

// sent is when the broker has stored it.
func (r *record) sent() time.Time {
	if r.stored <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.stored)
}

// nextProperty returns the first of properties, and those after it.
func nextProperty(properties []byte) (name, value, rest []byte) {
	one, rest, _ := bytes.Cut(properties, []byte{propertyEnd})
	name, value, _ = bytes.Cut(one, []byte{propertyBegin})
	return name, value[:len(value):len(value)], rest
}
