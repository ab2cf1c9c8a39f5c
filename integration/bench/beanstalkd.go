package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// beanstalkd is a private server that keeps its jobs in memory only.
type beanstalkd struct {
	cmd  *exec.Cmd
	addr string
}

// startBeanstalkd fails with exec.ErrNotFound where it is not installed.
func startBeanstalkd(ctx context.Context) (*beanstalkd, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(ctx, "beanstalkd", "-l", host, "-p", port)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start beanstalkd: %w", err)
	}
	s := &beanstalkd{cmd: cmd, addr: addr}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := s.dial(ctx)
		if err == nil {
			conn.Close()
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, err
		}
	}
}

func (s *beanstalkd) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// beanConn is one connection that speaks beanstalkd's text protocol.
type beanConn struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

func (s *beanstalkd) dial(ctx context.Context) (*beanConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to beanstalkd: %w", err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return &beanConn{Conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}, nil
}

// sendPut sends a job to wait for whole seconds; its answer is still to be read.
func (c *beanConn) sendPut(delay time.Duration, body []byte) {
	const priority, timeToRun = 0, 60
	fmt.Fprintf(c.out, "put %d %d %d %d\r\n", priority, int(delay.Seconds()), timeToRun, len(body))
	c.out.Write(body)         // Flush tells
	c.out.WriteString("\r\n") // likewise
}

// answer reads one line that must begin with a word, and returns what follows.
func (c *beanConn) answer(word string) (string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), word)
	if !ok {
		return "", fmt.Errorf("answered %q instead of %s", line, word)
	}
	return strings.TrimSpace(rest), nil
}

func (c *beanConn) put(delay time.Duration, body []byte) error {
	c.sendPut(delay, body)
	if err := c.out.Flush(); err != nil {
		return err
	}
	_, err := c.answer("INSERTED")
	return err
}

// reserve waits for the next job that is due.
func (c *beanConn) reserve() (id string, body []byte, err error) {
	if _, err := io.WriteString(c, "reserve\r\n"); err != nil {
		return "", nil, err
	}
	rest, err := c.answer("RESERVED")
	if err != nil {
		return "", nil, err
	}
	id, length, _ := strings.Cut(rest, " ")
	size, err := strconv.Atoi(length)
	if err != nil {
		return "", nil, fmt.Errorf("answered RESERVED %s", rest)
	}
	body = make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(c.in, body)
	return id, body[:size], err
}

func (c *beanConn) remove(id string) error {
	if _, err := io.WriteString(c, "delete "+id+"\r\n"); err != nil {
		return err
	}
	_, err := c.answer("DELETED")
	return err
}

// fill puts n jobs, pipelined.
func (s *beanstalkd) fill(ctx context.Context, n int, delay time.Duration) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		shared := body(bodySize)
		for range n {
			c.sendPut(delay, shared)
		}
		sent <- c.out.Flush()
	}()
	for range n {
		if _, err := c.answer("INSERTED"); err != nil {
			return fmt.Errorf("fill beanstalkd: %w", err)
		}
	}
	return <-sent
}

// lateness is what the function of that name does to a bridge. The server tells
// nobody when a job is due; it sets that between a put and its answer. So a job
// counts as due its delay after the answer, which flatters beanstalkd by the way
// of that.
func (s *beanstalkd) lateness(ctx context.Context, span time.Duration, seen *arrivals) error {
	ctx, cancel := context.WithCancel(ctx) // ends both connections
	defer cancel()
	producer, err := s.dial(ctx)
	if err != nil {
		return err
	}
	consumer, err := s.dial(ctx)
	if err != nil {
		return err
	}
	n := int(span / latenessEvery)
	due, came := make([]time.Time, n), make([]time.Time, n)
	consumed := make(chan error, 1)
	go func() { consumed <- consumer.consume(came, seen) }()
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * latenessEvery)))
		delay := latenessDelay(i)
		body := askedBody(time.Now().Add(delay))
		binary.BigEndian.PutUint32(body[8:], uint32(i))
		if err := producer.put(delay, body); err != nil {
			return err
		}
		due[i] = time.Now().Add(delay)
	}
	if err := <-consumed; err != nil {
		return err
	}
	for i := range n {
		seen.late = append(seen.late, came[i].Sub(due[i]))
	}
	return nil
}

// consume reserves and deletes jobs until all have come.
func (c *beanConn) consume(came []time.Time, seen *arrivals) error {
	for range came {
		id, body, err := c.reserve()
		if err != nil {
			return err
		}
		now := time.Now()
		seen.asked = append(seen.asked, now.Sub(askedOf(body)))
		came[binary.BigEndian.Uint32(body[8:])] = now
		if err := c.remove(id); err != nil {
			return err
		}
	}
	return nil
}
