package rocketmq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Conn is a connection to a broker or a name server, on which many requests may
// be under way. Safe for concurrent use.
type Conn struct {
	cluster *Cluster
	conn    net.Conn
	notice  func(code int)
	reading sync.WaitGroup

	write sync.Mutex
	frame []byte // memory of the last one, with write

	mu      sync.Mutex
	waiting map[int32]chan *Command
	opaque  int32
	ended   chan struct{}
	err     error // once ended is closed
}

// ErrClosed is the end of a connection that was closed on our side.
var ErrClosed = errors.New("connection is closed")

const (
	readBuffer = 64 << 10
	keptFrame  = 64 << 10
)

// Connect makes a connection, which must be closed. notice, if not nil, is told
// of what the server asks of us.
func (c *Cluster) Connect(ctx context.Context, address string, notice func(code int)) (*Conn, error) {
	dialling, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := c.Dial(dialling, "tcp", address)
	if err != nil {
		return nil, err
	}
	made := &Conn{cluster: c, conn: conn, notice: notice, waiting: make(map[int32]chan *Command), ended: make(chan struct{})}
	made.reading.Go(made.read)
	return made, nil
}

// AskOnce makes one request over a connection of its own: for what is asked seldom, or
// is to tell whether a server can be reached now. It returns when ctx ends.
func (c *Cluster) AskOnce(ctx context.Context, address string, request Command) (*Command, error) {
	conn, err := c.Connect(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Fail(fmt.Errorf("%s gives no answer: %w", address, context.Cause(ctx))) })()
	return conn.Ask(ctx, request)
}

// read hands out what comes, until the connection ends.
func (c *Conn) read() {
	from := bufio.NewReaderSize(c.conn, readBuffer)
	for {
		r, err := ReadCommand(from)
		if err != nil {
			c.Fail(fmt.Errorf("read from %s: %w", c.conn.RemoteAddr(), err))
			return
		}
		if r.Flag&FlagReply == 0 {
			c.asked(r)
			continue
		}
		c.mu.Lock()
		answer := c.waiting[r.Opaque]
		delete(c.waiting, r.Opaque)
		c.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
}

// asked is for what the broker asks of us. It gets an answer, so that its tools
// need not wait for one.
func (c *Conn) asked(r *Command) {
	if c.notice != nil {
		c.notice(r.Code)
	}
	if r.Flag&flagOneway == 0 {
		// If that fails the connection is broken, which others see.
		_ = c.send(&Command{Code: CodeNotSupported, Opaque: r.Opaque, Flag: FlagReply, Remark: "not supported"})
	}
}

// Fail ends the connection, for what err says if it has not ended before.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.ended)
		c.conn.Close()
	}
}

// Close ends the connection and returns when nothing reads from it any more.
func (c *Conn) Close() {
	c.Fail(ErrClosed)
	c.reading.Wait()
}

// Ended reports whether the connection is of no use any more.
func (c *Conn) Ended() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Ask signs a request and returns the answer to it, whatever its code. It returns when
// ctx ends, or the connection, but for the time of a write.
func (c *Conn) Ask(ctx context.Context, request Command) (*Command, error) {
	answer := make(chan *Command, 1)
	c.mu.Lock()
	c.opaque++
	request.Opaque = c.opaque
	c.waiting[request.Opaque] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, request.Opaque)
		c.mu.Unlock()
	}()
	request.Fields = c.cluster.Credentials.sign(request.Fields, request.Body)
	if err := c.send(&request); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r, nil
	case <-c.ended:
		return nil, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s gives no answer: %w", c.conn.RemoteAddr(), context.Cause(ctx))
	}
}

// send writes a frame, and ends a connection that does not take it.
func (c *Conn) send(command *Command) error {
	command.Language, command.Version = language, protocolVersion
	c.write.Lock()
	defer c.write.Unlock()
	frame, err := command.Append(c.frame[:0])
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if cap(frame) <= keptFrame {
		c.frame = frame
	}
	if err = c.conn.SetWriteDeadline(time.Now().Add(c.cluster.Timeout)); err == nil {
		_, err = c.conn.Write(frame)
	}
	if err != nil {
		err = fmt.Errorf("write to %s: %w", c.conn.RemoteAddr(), err)
		c.Fail(err)
	}
	return err
}
