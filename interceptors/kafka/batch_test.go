package kafkasource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// written is a record batch to be encoded as Kafka documents it.
type written struct {
	first      int64
	attributes int16
	time       int64
	producer   int64
	epoch      int16
	sequence   int32
	gaps       int64 // offsets after each record that are not used
	records    []record
}

func (w written) encode() []byte {
	var records []byte
	last := int64(0)
	for n, r := range w.records {
		last = int64(n) * (1 + w.gaps)
		body := binary.AppendVarint(binary.AppendVarint([]byte{0}, int64(n)), last)
		body = appendNullable(appendNullable(body, r.key), r.value)
		body = binary.AppendVarint(body, int64(len(r.headers)))
		for _, h := range r.headers {
			body = appendNullable(appendNullable(body, []byte(h.Name)), h.Value)
		}
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	return w.around(records, last+w.gaps, len(w.records))
}

// around puts records into a batch, compressed if attributes say so.
func (w written) around(records []byte, lastDelta int64, count int) []byte {
	if codec := compress.Compression(w.attributes & attributeCompression).Codec(); codec != nil {
		var packed bytes.Buffer
		writer := codec.NewWriter(&packed)
		writer.Write(records)
		writer.Close()
		records = packed.Bytes()
	}
	put := binary.BigEndian
	b := put.AppendUint64(nil, uint64(w.first))
	b = put.AppendUint32(b, uint32(batchHead-batchOffset+len(records)))
	b = put.AppendUint32(b, 0)
	b = append(b, magic)
	b = put.AppendUint32(b, 0)
	b = put.AppendUint16(b, uint16(w.attributes))
	b = put.AppendUint32(b, uint32(lastDelta))
	b = put.AppendUint64(b, uint64(w.time))
	b = put.AppendUint64(b, uint64(w.time)+1000)
	b = put.AppendUint64(b, uint64(w.producer))
	b = put.AppendUint16(b, uint16(w.epoch))
	b = put.AppendUint32(b, uint32(w.sequence))
	b = put.AppendUint32(b, uint32(count))
	b = append(b, records...)
	put.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func appendNullable(b, value []byte) []byte {
	if value == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(value))), value...)
}

// all reads the records of the first batch of data.
func all(t testing.TB, data []byte) (batch, []record) {
	t.Helper()
	b, _, err := nextBatch(data)
	if err != nil || !b.whole {
		t.Fatalf("whole %t, %v", b.whole, err)
	}
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
	content := b.records
	if b.compressed() {
		if content, err = unpackerOf(t, 1<<20).unpack(&b, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, known := scanner{rest: content}, make(source.Names)
	var records []record
	for range b.count {
		var r record
		if !b.next(&s, &r, known, leastHeaders) {
			t.Fatal("damaged")
		}
		records = append(records, r)
	}
	return b, records
}

var sample = []record{
	{key: []byte("k"), value: []byte("v"), headers: []core.Header{{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte{}}, {Name: "b"}}},
	{},
	{key: []byte{}, value: []byte{}},
	{value: bytes.Repeat([]byte("x"), 300), headers: []core.Header{{Name: "", Value: []byte("2")}}},
}

func TestBatch(t *testing.T) {
	for _, compression := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		w := written{first: 100, time: 1937035800250, attributes: int16(compression), producer: 7, gaps: 2, records: sample}
		b, got := all(t, append(w.encode(), "what follows"...))
		want := slices.Clone(sample)
		for n := range want {
			want[n].offset, want[n].sent = 100+3*int64(n), time.UnixMilli(1937035800250+int64(n))
			want[n].content = got[n].content
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" {
			t.Errorf("%s: %s", compression, diff)
		}
		if b.first != 100 || b.last != 111 || b.producer != 7 || b.control() || b.transactional() {
			t.Errorf("%s: %+v", compression, b)
		}
	}
}

func TestBatchTimes(t *testing.T) {
	if _, got := all(t, written{time: 5000, attributes: attributeAppendTime, records: sample[:2]}.encode()); !got[1].sent.Equal(time.UnixMilli(6000)) {
		t.Errorf("time of appending: %s", got[1].sent)
	}
	if _, got := all(t, written{time: -1, records: sample[:1]}.encode()); !got[0].sent.IsZero() {
		t.Errorf("no time: %s", got[0].sent)
	}
}

// TestDamagedBatch: no byte that is changed goes unnoticed.
func TestDamagedBatch(t *testing.T) {
	good := written{first: 5, records: sample}.encode()
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x55
		b, _, err := nextBatch(bad)
		if err != nil || !b.whole || b.check() != nil || at < 16 { // offset, size, epoch and magic are not in the sum
			continue
		}
		t.Errorf("byte %d was changed, and nobody noticed", at)
	}
	for n := range good {
		if b, _, err := nextBatch(good[:n]); err == nil && b.whole {
			t.Errorf("%d bytes are a whole batch", n)
		}
	}
	old := bytes.Clone(good)
	old[batchMagicAt] = 1
	if _, _, err := nextBatch(old); !errors.Is(err, errOldFormat) {
		t.Errorf("old format: %v", err)
	}
}

func unpackerOf(t testing.TB, most int) *unpacker {
	t.Helper()
	u, err := newUnpacker(most)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestBomb: what is small and would become large is not made large.
func TestBomb(t *testing.T) {
	const most = 1 << 20
	zeros, u := make([]byte, 8<<20), unpackerOf(t, most)
	for _, compression := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		data := written{attributes: int16(compression)}.around(zeros, 0, 1)
		b, _, err := nextBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := u.unpack(&b, nil)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || !invalid.TooLarge || cap(unpacked) > 4*most {
			t.Errorf("%s: %v, %d bytes in memory", compression, err, cap(unpacked))
		}
		if _, err := unpackerOf(t, len(zeros)).unpack(&b, nil); err != nil {
			t.Errorf("%s: %v", compression, err)
		}
	}
	b, _, _ := nextBatch(written{attributes: 5}.encode())
	if _, err := u.unpack(&b, nil); err == nil {
		t.Error("an unknown compression passed")
	}
	b, _, _ = nextBatch(written{attributes: int16(compress.Zstd), records: sample}.encode())
	b.records = b.records[:len(b.records)-3]
	if _, err := u.unpack(&b, nil); err == nil {
		t.Error("half of a compressed batch passed")
	}
}

// fetchVersions are those in which we ask.
func fetchVersions() []int16 { return []int16{4, 5, 6, 7, 8, 9, 10, 11, fetchByID} }

// TestAnswer reads an answer in each version in which brokers give it.
func TestAnswer(t *testing.T) {
	records := written{first: 3, records: sample}.encode()
	for _, version := range fetchVersions() {
		for _, code := range []int16{0, 6} {
			data := encodeAnswer(version, code, records)
			a, err := decodeAnswer(data, version)
			switch {
			case code != 0:
				if !errors.Is(err, kafka.NotLeaderForPartition) {
					t.Errorf("version %d, code %d: %v", version, code, err)
				}
				continue
			case err != nil || a.end != 90 || !bytes.Equal(a.records, records) || !slices.Equal(a.aborted, []aborted{{7, 8}, {9, 10}}):
				t.Errorf("version %d: %+v, %v", version, a, err)
			}
			for n := range bytes.Index(data, records) {
				if _, err := decodeAnswer(data[:n], version); err == nil {
					t.Errorf("version %d: %d bytes are an answer", version, n)
				}
			}
		}
	}
}

func encodeAnswer(version, code int16, records []byte) []byte {
	put := binary.BigEndian
	if version == fetchByID {
		return encodeCompact(code, records, nil)
	}
	b := put.AppendUint32(nil, 0)
	if version >= 7 {
		b = put.AppendUint32(put.AppendUint16(b, 0), 0)
	}
	b = append(put.AppendUint16(put.AppendUint32(b, 1), 5), "topic"...)
	b = put.AppendUint32(put.AppendUint32(b, 1), 2)
	b = put.AppendUint64(put.AppendUint64(put.AppendUint16(b, uint16(code)), 100), 90)
	if version >= 5 {
		b = put.AppendUint64(b, 1)
	}
	b = put.AppendUint32(b, 2)
	for _, n := range []uint64{7, 8, 9, 10} {
		b = put.AppendUint64(b, n)
	}
	if version >= 11 {
		b = put.AppendUint32(b, 0xffffffff)
	}
	return append(put.AppendUint32(b, uint32(len(records))), records...)
}

// encodeCompact is an answer of version fetchByID; tags are those of the partition.
func encodeCompact(code int16, records, tags []byte) []byte {
	put := binary.BigEndian
	b := append([]byte{1, 9, 2, 'x', 'y'}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // a tag that is not known; throttle, error, session
	b = append(append(b, 2), make([]byte, 16)...)
	b = put.AppendUint16(put.AppendUint32(append(b, 2), 2), uint16(code))
	b = put.AppendUint64(put.AppendUint64(put.AppendUint64(b, 100), 90), 1)
	b = append(b, 3)
	for n := uint64(7); n <= 9; n += 2 {
		b = append(put.AppendUint64(put.AppendUint64(b, n), n+1), 0)
	}
	b = put.AppendUint32(b, 0xffffffff)
	b = append(binary.AppendUvarint(b, uint64(len(records))+1), records...)
	return append(append(b, tags...), 0, 0)
}

// TestAnswerOfCutLog: where a log was cut, the answer has no records and says up to
// where the two agree.
func TestAnswerOfCutLog(t *testing.T) {
	cut := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{2, 1, 1, 'x', 0, 13}, 4), 90)
	for name, test := range map[string]struct {
		tags []byte
		cut  bool
	}{
		"cut": {append(cut, 0), true}, "not cut": {[]byte{0}, false}, "another tag": {[]byte{1, 1, 2, 'x', 'y'}, false}, "too short": {[]byte{1, 0, 4, 0, 0, 0, 4}, false},
	} {
		a, err := decodeAnswer(encodeCompact(0, nil, test.tags), fetchByID)
		if err != nil || a.cut != test.cut || test.cut && a.common != (point{offset: 90, epoch: 4}) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// TestIDs: a record has the same ID each time that it is read, and another one at
// its offset has another, by whatever they differ.
func TestIDs(t *testing.T) {
	idOf := func(topic topicID, epoch int32, w written) string {
		data := w.encode()
		binary.BigEndian.PutUint32(data[12:], uint32(epoch)) // the checksum leaves it out
		_, records := all(t, data)
		c := &chunk{partition: &partition{id: "k:src:topic:0:"}, of: topic}
		return c.idOf(&records[len(records)-1])
	}
	base := written{first: 7, time: 5000, records: []record{{key: []byte("k"), value: []byte("v")}}}
	first := idOf(topicID{1}, 3, base)
	if again := idOf(topicID{1}, 3, base); first != again || core.CheckID(first) != nil {
		t.Errorf("%q, and again %q", first, again)
	}
	// As compaction leaves it: the batch has lost another record, and its time begins
	// elsewhere.
	compacted := written{first: 6, time: 4999, records: []record{{}, {key: []byte("k"), value: []byte("v")}}}
	if got := idOf(topicID{1}, 3, compacted); got != first {
		t.Errorf("in another batch %q, want %q", got, first)
	}
	later, other, header := base, base, base
	later.time++
	other.records = []record{{key: []byte("k"), value: []byte("w")}}
	header.records = []record{{key: []byte("k"), value: []byte("v"), headers: []core.Header{{Name: "a"}}}}
	for name, id := range map[string]string{
		"topic": idOf(topicID{2}, 3, base), "no topic": idOf(topicID{}, 3, base), "epoch": idOf(topicID{1}, 4, base),
		"time": idOf(topicID{1}, 3, later), "value": idOf(topicID{1}, 3, other), "header": idOf(topicID{1}, 3, header),
	} {
		if id == first {
			t.Errorf("another %s, and the same ID", name)
		}
	}
}

func TestFilter(t *testing.T) {
	tx := func(producer, first int64) *batch {
		return &batch{first: first, last: first + 9, producer: producer, attributes: attributeTransactional}
	}
	end := func(producer, first int64) *batch {
		return &batch{first: first, last: first, producer: producer, attributes: attributeTransactional | attributeControl}
	}
	plain := &batch{first: 60, last: 69, producer: 1}
	f := newFilter([]aborted{{producer: 2, first: 40}, {producer: 1, first: 10}})
	for n, step := range []struct {
		b     *batch
		drops bool
	}{
		{tx(1, 0), false}, // of a transaction before
		{end(1, 10), true},
		{tx(1, 11), false},
	} {
		if n == 2 {
			f = newFilter([]aborted{{producer: 2, first: 40}, {producer: 1, first: 30}})
		}
		if got := f.drops(step.b); got != step.drops {
			t.Errorf("before: batch %d dropped: %t", n, got)
		}
	}
	for n, step := range []struct {
		b     *batch
		drops bool
	}{
		{tx(1, 30), true}, {tx(2, 40), true}, {tx(3, 50), false}, {plain, false}, {tx(1, 70), true},
		{end(1, 80), true}, {tx(1, 81), false}, {tx(2, 91), true}, {end(2, 101), true}, {tx(2, 102), false},
	} {
		if got := f.drops(step.b); got != step.drops {
			t.Errorf("batch %d dropped: %t", n, got)
		}
	}
}

// FuzzBatch: whatever a broker sends, nothing panics and no record is out of
// its batch.
func FuzzBatch(f *testing.F) {
	for compression := range int16(5) {
		f.Add(written{first: 3, attributes: compression, records: sample}.encode())
	}
	f.Add(written{records: sample}.around([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 0, 1<<30))
	u := unpackerOf(f, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, version := range fetchVersions() {
			if a, err := decodeAnswer(data, version); err == nil && len(a.records) > len(data) {
				t.Fatal("more than there is")
			}
		}
		for rest := data; len(rest) > 0; {
			b, after, err := nextBatch(rest)
			if err != nil || !b.whole {
				return
			}
			if len(after) >= len(rest) {
				t.Fatal("no progress")
			}
			rest = after
			content := b.records
			if b.compressed() {
				if content, err = u.unpack(&b, nil); err != nil {
					continue
				}
			}
			s, known := scanner{rest: content}, make(source.Names)
			for range b.count {
				var r record
				if !b.next(&s, &r, known, leastHeaders) {
					break
				}
				if r.offset < b.first || r.offset > b.last {
					t.Fatalf("offset %d in batch %d to %d", r.offset, b.first, b.last)
				}
			}
		}
	})
}
