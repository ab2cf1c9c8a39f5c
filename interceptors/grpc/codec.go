package grpclistener

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// codec is the common codec of Protocol Buffers, but for requests that may have
// many parts: the library makes as many of them as a request names, and for a
// message of the publish stream thirteen allocations, which took more time than
// anything else that the listener does.
type codec struct {
	encoding.CodecV2
	maxMessages, maxHeaders int
}

// maxList is more than the fields of a ListRequest need.
const maxList = 64 << 10

var errNotProtobuf = errors.New("the request is not the Protocol Buffers message that is asked for")

// Unmarshal implements encoding.CodecV2. What a request to publish holds shares
// memory that is nobody else's; of what is more than allowed it has one too many.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	var ok bool
	switch request := v.(type) {
	case *bridgev1.PublishStreamRequest:
		request.Reset()
		request.Messages, ok = c.wire(data).request(streamMessages, &request.Sequence)
	case *bridgev1.PublishRequest:
		request.Reset()
		request.Messages, ok = c.wire(data).request(publishMessages, nil)
	case *bridgev1.ListRequest:
		if data.Len() > maxList {
			return fmt.Errorf("a ListRequest is larger than %d bytes", maxList)
		}
		return c.CodecV2.Unmarshal(data, v)
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
	if !ok {
		return errNotProtobuf
	}
	return nil
}

func (c codec) wire(data mem.BufferSlice) *wire {
	return newWire(data.Materialize(), c.maxMessages, c.maxHeaders)
}
