package rocketmqsource

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// The requests that we make, and those of a broker that we know.
const (
	requestPull        = 11
	requestOffset      = 14
	requestCommit      = 15
	requestMaxOffset   = 30
	requestMinOffset   = 31
	requestHeartbeat   = 34
	requestLeave       = 35
	requestMembers     = 38
	requestRoute       = 105
	requestSendBatch   = 320
	noticeMembersMoved = 40 // the group has more members, or fewer
)

// What is answered.
const (
	codeOK             = 0
	codeFailed         = 1 // whatever else has no code
	codeNotSupported   = 3
	codeFlushDisk      = 10 // stored, but not flushed in time
	codeSlaveAway      = 11
	codeFlushSlave     = 12
	codeIllegal        = 13 // the message is too large, or not as it must be
	codeNoTopic        = 17
	codeNothing        = 19 // there is no message yet
	codeAgain          = 20 // go on from the next offset at once
	codeOffsetMoved    = 21 // there is no such offset
	codeNoOffset       = 22 // the group has none
	flagReply          = 1
	flagOneway         = 2
	protocolVersion    = 317 // of RocketMQ 4.4; newer answers have more fields
	maxFrame           = 64 << 20
	frameHeadersLength = 8
)

// request is a command that is sent.
type request struct {
	code   int
	fields map[string]string
	body   []byte
}

// header is that of a command on the wire.
type header struct {
	Code     int               `json:"code"`
	Language string            `json:"language"`
	Version  int               `json:"version"`
	Opaque   int32             `json:"opaque"`
	Flag     int               `json:"flag"`
	Remark   string            `json:"remark,omitempty"`
	Fields   map[string]string `json:"extFields,omitempty"`
}

// reply is a command that has come.
type reply struct {
	header
	body []byte
}

// refused is an answer that is not what was hoped for.
type refused struct {
	code   int
	remark string
}

func (r *refused) Error() string {
	return fmt.Sprintf("broker answers with code %d: %s", r.code, r.remark)
}

func (r *reply) refused() error { return &refused{code: r.Code, remark: r.Remark} }

func hasCode(err error, codes ...int) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && slices.Contains(codes, r.code)
}

// A frame is: the length of the rest, the length of the header with its encoding
// (0 is JSON) in the highest byte, the header, the body.

func appendFrame(frame []byte, h header, body []byte) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return frame, err
	}
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(text)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	return append(append(frame, text...), body...), nil
}

// readFrame reads one command, whose body has memory of its own.
func readFrame(from io.Reader) (*reply, error) {
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
	r := &reply{body: rest[headerLength:]}
	if err := json.Unmarshal(rest[:headerLength], &r.header); err != nil {
		return nil, fmt.Errorf("decode header: %w", err)
	}
	return r, nil
}

// credentials sign requests, as brokers with access control want it.
type credentials struct{ accessKey, secretKey, token string }

// sign returns fields with a signature, or as they are without credentials.
func (c *credentials) sign(fields map[string]string, body []byte) map[string]string {
	if c.accessKey == "" {
		return fields
	}
	signed := make(map[string]string, len(fields)+3)
	maps.Copy(signed, fields)
	signed["AccessKey"] = c.accessKey
	if c.token != "" {
		signed["SecurityToken"] = c.token
	}
	mac := hmac.New(sha1.New, []byte(c.secretKey))
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		mac.Write([]byte(signed[name]))
	}
	mac.Write(body)
	signed["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return signed
}
