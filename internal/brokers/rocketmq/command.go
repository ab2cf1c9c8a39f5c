package rocketmq

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Requests.
const (
	RequestPull         = 11
	RequestOffset       = 14 // that a group has committed
	RequestCommit       = 15
	RequestMaxOffset    = 30
	RequestMinOffset    = 31
	RequestHeartbeat    = 34
	RequestLeave        = 35
	RequestMembers      = 38 // of a consumer group
	RequestMembersMoved = 40 // made by a broker: the group has more members, or fewer
	RequestRoute        = 105
	RequestBrokers      = 106
	RequestSendBatch    = 320
)

// Codes of answers.
const (
	CodeOK             = 0
	CodeSystemError    = 1 // whatever else has no code
	CodeSystemBusy     = 2
	CodeNotSupported   = 3
	CodeFlushDisk      = 10 // stored, but not flushed in time
	CodeReplicaMissing = 11
	CodeFlushReplica   = 12
	CodeIllegal        = 13 // the message is too large, or not as it must be
	CodeUnavailable    = 14
	CodeVersion        = 15
	CodeNoPermission   = 16
	CodeNoTopic        = 17
	CodeNoMessage      = 19 // there is none yet
	CodePullAgain      = 20 // continue from the next offset at once
	CodeOffsetMoved    = 21 // there is no such offset
	CodeNoOffset       = 22 // the group has none
	CodeFlowControl    = 215
	CodeNotLeader      = 501
	CodeGoAway         = 1500
)

// Bits of Command.Flag.
const (
	FlagReply  = 1
	flagOneway = 2
)

const (
	language           = "GO"
	protocolVersion    = 317      // of RocketMQ 4.4; newer answers have more fields
	maxFrame           = 64 << 20 // bounds the memory that an answer may take
	frameHeadersLength = 8
)

// Command is a request or the answer to one. A request needs Code, Fields and Body.
type Command struct {
	Code     int               `json:"code"`
	Language string            `json:"language"`
	Version  int               `json:"version"`
	Opaque   int32             `json:"opaque"` // that of an answer is its request's
	Flag     int               `json:"flag"`
	Remark   string            `json:"remark,omitempty"`
	Fields   map[string]string `json:"extFields,omitempty"`
	Body     []byte            `json:"-"`
}

// RefusedError is an answer with another code than CodeOK.
type RefusedError struct {
	Code   int
	Remark string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused with code %d: %s", e.Code, e.Remark)
}

// Err is a *RefusedError unless an answer has CodeOK.
func (c *Command) Err() error {
	if c.Code == CodeOK {
		return nil
	}
	return &RefusedError{Code: c.Code, Remark: c.Remark}
}

// HasCode reports whether err is a *RefusedError with one of the codes.
func HasCode(err error, codes ...int) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && slices.Contains(codes, r.Code)
}

// A frame is: the length of the rest, the length of the header with its encoding
// (0 is JSON) in the highest byte, the header, the body.

// Append adds the command to frame as it is on the wire.
func (c *Command) Append(frame []byte) ([]byte, error) {
	header, err := json.Marshal(c)
	if err != nil {
		return frame, err
	}
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(header)+len(c.Body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	return append(append(frame, header...), c.Body...), nil
}

// ReadCommand reads one, whose body has memory of its own.
func ReadCommand(from io.Reader) (*Command, error) {
	var lengths [frameHeadersLength]byte
	if _, err := io.ReadFull(from, lengths[:]); err != nil {
		return nil, err
	}
	length, word := binary.BigEndian.Uint32(lengths[:]), binary.BigEndian.Uint32(lengths[4:])
	headerLength := word & 0xffffff
	switch {
	case word>>24 != 0:
		return nil, fmt.Errorf("header is in encoding %d, not in JSON", word>>24)
	case length < 4 || length > maxFrame || headerLength > length-4:
		return nil, fmt.Errorf("frame of %d bytes with a header of %d", length, headerLength)
	}
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(from, rest); err != nil {
		return nil, err
	}
	c := &Command{Body: rest[headerLength:]}
	if err := json.Unmarshal(rest[:headerLength], c); err != nil {
		return nil, fmt.Errorf("decode header: %w", err)
	}
	return c, nil
}
