package kafkasource

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// conn is one connection to a broker, on which records are fetched. It is for
// one goroutine.
type conn struct {
	*kafkaconn.Conn
	byID    bool // the broker can be asked for a topic by its ID
	lastID  int32
	timeout time.Duration // of the exchange under way
}

var errUnasked = errors.New("broker sent an unexpected answer")

// open makes a connection within the dial timeout.
func (s *settings) open(ctx context.Context, address string) (*conn, error) {
	made, err := s.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &conn{Conn: made, byID: made.Offers(protocol.Fetch, fetchByID)}, nil
}

// within lets what do its exchange end by timeout and with ctx. After an error the
// connection is of no more use.
func (c *conn) within(ctx context.Context, timeout time.Duration, what func() error) error {
	c.timeout = timeout
	if err := c.Raw.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Raw.Close() })
	err := what()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// roomFor returns memory for an answer of n bytes. It may wait.
type roomFor func(n int) ([]byte, error)

// fetch sends a request and returns the answer without its head, and its version. Of
// an answer that is longer than most, the rest is thrown away. Until there is room for
// it, the broker keeps it.
func (c *conn) fetch(r *request, most int, room roomFor) (answer []byte, version int16, err error) {
	if !r.id.none() {
		answer, err = c.exchange(r.byID(c.head(protocol.Fetch, fetchByID)), most, room)
		return answer, fetchByID, err
	}
	c.lastID++
	if err := c.Send(r.byName(), c.lastID); err != nil {
		return nil, 0, err
	}
	answer, err = c.receive(most, room)
	return answer, c.Versions[protocol.Fetch], err
}

// exchange sends a request that head has begun, and returns the answer as fetch does.
func (c *conn) exchange(packet []byte, most int, room roomFor) ([]byte, error) {
	binary.BigEndian.PutUint32(packet, uint32(len(packet)-4))
	if _, err := c.Stream.Write(packet); err != nil {
		return nil, err
	}
	return c.receive(most, room)
}

func (c *conn) receive(most int, room roomFor) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.Stream, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.lastID || size < 0 {
		return nil, errUnasked
	}
	kept := min(size, most)
	buffer, err := room(kept)
	if err != nil {
		return nil, err
	}
	if err := c.Raw.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.Stream, buffer); err != nil {
		return nil, err
	}
	_, err = io.CopyN(io.Discard, c.Stream, int64(size-kept))
	return buffer, err
}
