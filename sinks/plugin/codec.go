package plugin

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is the common codec of Protocol Buffers, but for where it encodes to: the
// common one takes a megabyte for each message above 32 KiB, which is held until
// it is written, and that may be long after its call was given up.
type codec struct {
	encoding.CodecV2
	pool mem.BufferPool
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", v)
	}
	buffer := c.pool.Get(proto.Size(m))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buffer)[:0], m)
	if err != nil {
		c.pool.Put(buffer)
		return nil, err
	}
	*buffer = data
	return mem.BufferSlice{mem.NewBuffer(buffer, c.pool)}, nil
}
