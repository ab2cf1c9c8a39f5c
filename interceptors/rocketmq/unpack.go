package rocketmqsource

import (
	"bytes"
	"compress/zlib"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/delaybridge/delaybridge/core"
)

// The ways in which a client compresses a body; those of 4.x know zlib only.
const (
	compressionOld  = 0 << 8
	compressionLZ4  = 1 << 8
	compressionZstd = 2 << 8
	compressionZlib = 3 << 8
)

// content is the body without compression, but no more than most bytes and one.
// What can't be had is a *core.InvalidError.
func (r *record) content(most int) ([]byte, error) {
	switch {
	case r.flags&flagInner != 0:
		return nil, core.Invalidf("body", "is a batch, which only consumers of this topic type can read")
	case r.flags&flagCompressed == 0:
		return r.body, nil
	}
	reader, err := unpacker(r.flags&compressionOf, bytes.NewReader(r.body))
	if err != nil {
		return nil, core.Invalidf("body", "can't be decompressed")
	}
	defer reader.Close()
	body, err := io.ReadAll(io.LimitReader(reader, int64(most)+1))
	if err != nil {
		return nil, core.Invalidf("body", "can't be decompressed")
	}
	return body, nil
}

// maxWindow bounds the memory that zstd may ask for.
const maxWindow = 32 << 20

func unpacker(compression uint32, packed io.Reader) (io.ReadCloser, error) {
	switch compression {
	case compressionOld, compressionZlib:
		return zlib.NewReader(packed)
	case compressionLZ4:
		return io.NopCloser(lz4.NewReader(packed)), nil
	case compressionZstd:
		decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return nil, errDamaged
}
