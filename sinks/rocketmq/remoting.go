package rocketmq

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// Requests that we make past the client library, which tells neither a missing
// topic from a dead name server nor whether a broker is alive.
const (
	requestHeartbeat = 34
	requestRoute     = 105
	requestCluster   = 106

	codeSuccess    = 0
	codeNoSuchName = 17 // topic does not exist
)

// maxReply bounds the memory that a reply may take.
const maxReply = 8 << 20

// command is the header of a request or a reply.
type command struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int               `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark"`
	ExtFields map[string]string `json:"extFields,omitempty"`

	body []byte
}

// ask makes one request over a connection of its own and returns the reply. It
// returns when ctx ends.
func ask(ctx context.Context, address string, request command) (command, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return command{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	request.Language, request.Version, request.Opaque = "GO", 317, 1
	if err := writeCommand(conn, request); err != nil {
		return command{}, fmt.Errorf("write to %s: %w", address, orCause(ctx, err))
	}
	for {
		reply, err := readCommand(conn)
		if err != nil {
			return command{}, fmt.Errorf("read from %s: %w", address, orCause(ctx, err))
		}
		if reply.Flag&1 == 1 && reply.Opaque == request.Opaque {
			return reply, nil
		}
	}
}

// orCause is why ctx ended, if it has, as err is then only the echo.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A frame is: length of the rest, length of the header with the encoding (0 is
// JSON) in its highest byte, header, body.

func writeCommand(w io.Writer, c command) error {
	header, err := json.Marshal(c)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(c.body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	frame = append(append(frame, header...), c.body...)
	_, err = w.Write(frame)
	return err
}

func readCommand(r io.Reader) (c command, err error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return c, err
	}
	length, headerWord := binary.BigEndian.Uint32(prefix[:]), binary.BigEndian.Uint32(prefix[4:])
	headerLength := headerWord & 0xffffff
	switch {
	case headerWord>>24 != 0:
		return c, fmt.Errorf("header is in encoding %d, not JSON", headerWord>>24)
	case length < 4 || length > maxReply || headerLength > length-4:
		return c, fmt.Errorf("frame of %d bytes with a header of %d", length, headerLength)
	}
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return c, err
	}
	if err := json.Unmarshal(rest[:headerLength], &c); err != nil {
		return c, fmt.Errorf("decode header: %w", err)
	}
	c.body = rest[headerLength:]
	return c, nil
}
