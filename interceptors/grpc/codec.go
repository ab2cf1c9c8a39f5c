package grpcdoor

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// codec is the common codec of Protocol Buffers, but for the requests of the
// publish stream, which are many: a message of those took thirteen allocations,
// and decoding them more time than anything else that the door does.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2. What a request of the publish stream
// holds shares memory that is nobody else's.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	request, ok := v.(*bridgev1.PublishStreamRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	raw := data.Materialize()
	if newWire(raw).request(request) {
		return nil
	}
	return proto.Unmarshal(raw, request) // resets it
}
