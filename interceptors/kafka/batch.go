package kafkasource

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// batch is a record batch as it lies in the log; its form is in Kafka's
// documentation under "Record Batch".
type batch struct {
	first, last int64 // offsets
	size        int   // in the log, head included
	epoch       int32 // of the leader that wrote it
	attributes  int16
	firstTime   int64 // ms
	lastTime    int64
	producer    int64
	count       int
	records     []byte // compressed, if attributes say so
	checksum    uint32
	summed      []byte // what checksum is of
	whole       bool   // the answer has all of it
}

const (
	batchSizeAt  = 8 // bytes up to and with the size do not count in it
	batchOffset  = batchSizeAt + 4
	batchHead    = 61
	batchMagicAt = 16
	magic        = 2

	attributeCompression   = 0x07
	attributeAppendTime    = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

var (
	errOldFormat = errors.New("records are in the format from before Kafka 0.11, which is not read")
	errPart      = errors.New("broker sent less than the head of a record batch")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// nextBatch reads the head of the first batch of data and returns what follows
// it. If data ends within the head, errPart.
func nextBatch(data []byte) (b batch, rest []byte, err error) {
	if len(data) > batchMagicAt && data[batchMagicAt] != magic {
		return b, nil, errOldFormat
	}
	if len(data) < batchHead {
		return b, nil, errPart
	}
	s := scanner{rest: data}
	b.first = s.int64()
	b.size = int(s.int32()) + batchOffset
	b.epoch = s.int32()
	s.int8() // magic
	b.checksum = uint32(s.int32())
	summed := s.rest
	b.attributes = s.int16()
	b.last = b.first + int64(s.int32())
	b.firstTime, b.lastTime = s.int64(), s.int64()
	b.producer = s.int64()
	s.int16() // epoch of the producer
	s.int32() // sequence
	b.count = int(s.int32())
	if b.size < batchHead || b.last < b.first || b.count < 0 {
		return b, nil, errDamaged
	}
	if b.size > len(data) {
		return b, nil, nil
	}
	b.whole = true
	b.records = s.rest[:b.size-batchHead]
	b.summed = summed[:b.size-(len(data)-len(summed))]
	return b, data[b.size:], nil
}

func (b *batch) control() bool       { return b.attributes&attributeControl != 0 }
func (b *batch) transactional() bool { return b.attributes&attributeTransactional != 0 }

// check compares the checksum: what the network or a disk has changed must not
// be parked.
func (b *batch) check() error {
	if sum := crc32.Checksum(b.summed, castagnoli); sum != b.checksum {
		return fmt.Errorf("record batch at offset %d: checksum is wrong", b.first)
	}
	return nil
}

func (b *batch) compressed() bool { return b.attributes&attributeCompression != 0 }

// record is one record; its bytes are part of what it was read from.
type record struct {
	offset     int64
	epoch      int32  // of the leader that wrote it
	content    uint32 // a checksum of key, value and headers
	sent       time.Time
	key, value []byte
	headers    []core.Header
	crowded    bool // there are too many headers, and so none were read
}

// next reads the next record of a batch from s. headers are appended to those
// of r, which are the record's when it returns; if there are more than most, none.
// False: s is damaged.
func (b *batch) next(s *scanner, r *record, known source.Names, most int) bool {
	body := scanner{rest: s.bytes()}
	body.int8() // attributes, unused
	delta := body.varint()
	r.offset, r.epoch = b.first+body.varint(), b.epoch
	r.content = crc32.Checksum(body.rest, castagnoli)
	if b.attributes&attributeAppendTime != 0 {
		r.sent = timeOf(b.lastTime)
	} else {
		r.sent = timeOf(b.firstTime + delta)
	}
	r.key, r.value = body.bytes(), body.bytes()
	count := body.varint()
	if r.crowded = count > int64(most); r.crowded {
		count = 0 // an empty one has 2 bytes there, and would have 40 here
	}
	for range count {
		if body.bad {
			break
		}
		name := known.Intern(body.bytes())
		r.headers = append(r.headers, core.Header{Name: name, Value: body.bytes()})
	}
	return !s.bad && !body.bad && r.offset >= b.first && r.offset <= b.last
}

// timeOf: no time is -1.
func timeOf(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
