package grpclistener

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// codec is the common codec of Protocol Buffers, but for requests that may have
// many parts: each can be two bytes and take a hundred in memory, and the
// library makes as many as a request names.
type codec struct {
	encoding.CodecV2
	maxMessages int
	limits      func() core.Limits
}

// maxList is more than the fields of a ListRequest or TimelineRequest need.
const maxList = 64 << 10

// Numbers of fields in bridge.proto.
const (
	publishMessages = 1 // of a PublishRequest
	streamMessages  = 2 // of a PublishStreamRequest
	messageHeaders  = 5
	messageOptions  = 7
)

// Unmarshal implements encoding.CodecV2. Of what a request to publish has more
// of than is allowed, it keeps one too many, so that the request is refused.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch request := v.(type) {
	case *bridgev1.PublishStreamRequest:
		return c.publish(data, streamMessages, request)
	case *bridgev1.PublishRequest:
		return c.publish(data, publishMessages, request)
	case *bridgev1.ListRequest, *bridgev1.TimelineRequest:
		if data.Len() > maxList {
			return fmt.Errorf("a request is larger than %d bytes", maxList)
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

func (c codec) publish(data mem.BufferSlice, messages protowire.Number, request proto.Message) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	raw, err := prune(buffer.ReadOnlyData(), []bound{{messages, c.maxMessages + 1, []bound{
		{messageHeaders, c.limits().MaxGiven() + 1, nil}, {messageOptions, core.MaxOptions + 1, nil}}}})
	if err != nil {
		return err
	}
	return proto.Unmarshal(raw, request)
}

// bound is how many fields of a number a message may have, and what holds for
// the fields inside of each.
type bound struct {
	number protowire.Number
	most   int
	inside []bound
}

// prune returns raw without the fields that exceed their bound; raw itself if
// none does. The encoding is that of
// https://protobuf.dev/programming-guides/encoding.
func prune(raw []byte, bounds []bound) ([]byte, error) {
	counts := make([]int, len(bounds))
	var kept []byte // nil: all that was read
	for at := 0; at < len(raw); {
		number, kind, n := protowire.ConsumeField(raw[at:])
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		field, err := raw[at:at+n], error(nil)
		for i, b := range bounds {
			if number != b.number || kind != protowire.BytesType {
				continue
			}
			if counts[i]++; counts[i] > b.most {
				field = nil
			} else if field, err = b.pruneInside(field); err != nil {
				return nil, err
			}
		}
		if kept == nil && len(field) < n {
			kept = append(make([]byte, 0, len(raw)), raw[:at]...)
		}
		if kept != nil {
			kept = append(kept, field...)
		}
		at += n
	}
	if kept != nil {
		return kept, nil
	}
	return raw, nil
}

// pruneInside prunes a field whose value is a message.
func (b bound) pruneInside(field []byte) ([]byte, error) {
	if b.inside == nil {
		return field, nil
	}
	_, _, tag := protowire.ConsumeTag(field)
	value, _ := protowire.ConsumeBytes(field[tag:])
	kept, err := prune(value, b.inside)
	if err != nil || len(kept) == len(value) {
		return field, err
	}
	return protowire.AppendBytes(field[:tag:tag], kept), nil
}
