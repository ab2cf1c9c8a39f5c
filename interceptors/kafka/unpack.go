package kafkasource

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"

	"github.com/delaybridge/delaybridge/core"
)

// unpacker takes the compression off record batches. It asks for no more memory
// than a batch may have, whatever the batch says of its size. Safe for concurrent use.
type unpacker struct {
	most int // bytes of a batch without compression
	zstd *zstd.Decoder
}

// leastWindow is what every decoder of zstd must have, whatever is bounded.
const leastWindow = 8 << 20

func newUnpacker(most int) (*unpacker, error) {
	window := uint64(max(most, leastWindow))
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window))
	if err != nil {
		return nil, err
	}
	return &unpacker{most: most, zstd: decoder}, nil
}

// unpack returns the records of b without compression, in buffer, which is empty,
// if that has room. More than may be are a *core.InvalidError, as is what can't be
// decompressed.
func (u *unpacker) unpack(b *batch, buffer []byte) (unpacked []byte, err error) {
	switch compress.Compression(b.attributes & attributeCompression) {
	case compress.Gzip:
		var reader *gzip.Reader
		if reader, err = gzip.NewReader(&scanner{rest: b.records}); err == nil {
			unpacked, err = appendAll(buffer, reader, u.most)
		}
	case compress.Snappy:
		unpacked, err = u.snappy(buffer, b.records)
	case compress.Lz4:
		unpacked, err = appendAll(buffer, lz4.NewReader(&scanner{rest: b.records}), u.most)
	case compress.Zstd:
		unpacked, err = u.zstd.DecodeAll(b.records, buffer)
	default:
		return buffer, core.Invalidf("batch", "has an unknown compression")
	}
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err := core.Invalidf("batch", "needs a zstd window larger than %d bytes; increase max_batch_bytes of the source to allow it", max(u.most, leastWindow))
		err.TooLarge = true
		return buffer, err
	case len(unpacked) > u.most, errors.Is(err, errLarger), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return buffer, tooLarge(u.most)
	case err != nil:
		return buffer, core.Invalidf("batch", "can't be decompressed")
	}
	return unpacked, nil
}

func tooLarge(most int) error {
	err := core.Invalidf("batch", "is larger than %d bytes", most)
	err.TooLarge = true
	return err
}

func isTooLarge(err error) bool {
	invalid, ok := errors.AsType[*core.InvalidError](err)
	return ok && invalid.TooLarge
}

// errLarger: more would come than may.
var errLarger = errors.New("is larger than allowed")

// snappyHead begins what Java has compressed: versions follow, and then blocks with
// their lengths. Others write a single block without.
const (
	snappyHead    = "\x82SNAPPY\x00"
	snappyHeadLen = len(snappyHead) + 4 + 4
)

func (u *unpacker) snappy(to, packed []byte) (_ []byte, err error) {
	if !bytes.HasPrefix(packed, []byte(snappyHead)) {
		return u.snappyBlock(to, packed)
	}
	s := scanner{rest: packed}
	s.take(snappyHeadLen)
	for len(s.rest) > 0 && err == nil {
		to, err = u.snappyBlock(to, s.take(int(s.int32())))
	}
	if s.bad {
		err = errDamaged
	}
	return to, err
}

// snappyGrowth is more than a byte can stand for: 64 bytes take three.
const snappyGrowth = 22

func (u *unpacker) snappyBlock(to, packed []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(packed)
	switch {
	case err != nil:
		return to, err
	case n > u.most-len(to):
		return to, errLarger
	case n > snappyGrowth*len(packed):
		return to, errDamaged
	}
	to = slices.Grow(to, n)[:len(to)+n]
	_, err = snappy.Decode(to[len(to)-n:], packed)
	return to, err
}

// Read makes a scanner a source for decompression.
func (s *scanner) Read(into []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// appendAll appends what reader has to b, which is empty, but not more than
// most bytes and one.
func appendAll(b []byte, reader io.Reader, most int) ([]byte, error) {
	const least = 4 << 10
	for len(b) <= most {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(max(least, len(b)), most+1-len(b)))
		}
		n, err := reader.Read(b[len(b):min(cap(b), most+1)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}
