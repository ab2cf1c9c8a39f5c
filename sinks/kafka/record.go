package kafka

import (
	"bytes"
	"io"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
)

// record is one message in the form in which it is sent. It shares the bytes of
// the message, which nobody changes, but not the message.
type record struct {
	key, value []byte
	headers    []protocol.Header
	size       int // upper bound, in bytes
}

// Sizes of the parts of a record batch that do not depend on the message; those
// of a record and of a header are upper bounds.
const (
	batchHeadBytes    = 61
	recordHeadBytes   = 32
	headerHeadBytes   = 6
	generatedIDLen    = 28 // at most, see core.IDs
	deliveredHeadings = 3*headerHeadBytes + len(core.HeaderID+core.HeaderAttempt+core.HeaderDeliverAt) + len("10000") + len(core.TimeFormat)
)

// newRecords returns the records of a batch. Their headers share two slabs, as
// this is done for every message that is delivered.
func newRecords(batch []*core.Message) []record {
	count, length := 0, 0
	for _, m := range batch {
		count += len(m.Headers) + core.AddedHeaders
		length += m.AddedBytes()
	}
	records, headers, values := make([]record, len(batch)), make([]protocol.Header, 0, count), make([]byte, 0, length)
	for n, m := range batch {
		var added [core.AddedHeaders]core.Header
		added, values = m.AppendAdded(values)
		first := len(headers)
		headers = appendHeaders(appendHeaders(headers, m.Headers), added[:])
		records[n] = newRecord(m, headers[first:len(headers):len(headers)])
	}
	return records
}

func appendHeaders(to []protocol.Header, from []core.Header) []protocol.Header {
	for _, h := range from {
		to = append(to, protocol.Header{Key: h.Name, Value: h.Value})
	}
	return to
}

func newRecord(m *core.Message, headers []protocol.Header) record {
	r := record{key: m.Key, value: m.Body, headers: headers, size: recordHeadBytes + len(m.Key) + len(m.Body)}
	for _, h := range headers {
		r.size += headerHeadBytes + len(h.Key) + len(h.Value)
	}
	return r
}

// acceptedSize is the most that m can take in a batch of its own, before its ID
// is known and its attempts are counted.
func acceptedSize(m *core.Message) int {
	size := batchHeadBytes + recordHeadBytes + deliveredHeadings + max(len(m.ID), generatedIDLen) + len(m.Key) + len(m.Body)
	for _, h := range m.Headers {
		size += headerHeadBytes + len(h.Name) + len(h.Value)
	}
	return size
}

// recordReader gives the records of several chunks to the encoder, one after
// the other. It can be read once, and allocates nothing for each.
type recordReader struct {
	chunks     []*chunk
	at         int
	record     protocol.Record
	key, value payload
}

// payload is a key or a body as the encoder reads it.
type payload struct{ bytes.Reader }

func (p *payload) Close() error { return nil }

// ReadRecord returns the next record, valid until the next call, or io.EOF.
func (r *recordReader) ReadRecord() (*protocol.Record, error) {
	for len(r.chunks) > 0 && r.at == len(r.chunks[0].places) {
		r.chunks, r.at = r.chunks[1:], 0
	}
	if len(r.chunks) == 0 {
		return nil, io.EOF
	}
	from := r.chunks[0].record(r.at)
	r.at++
	r.record = protocol.Record{Headers: from.headers} // no time: the encoder's
	if from.key != nil {
		r.key.Reset(from.key)
		r.record.Key = &r.key
	}
	if from.value != nil {
		r.value.Reset(from.value)
		r.record.Value = &r.value
	}
	return &r.record, nil
}
