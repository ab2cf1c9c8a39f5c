package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/delaybridge/delaybridge/core"
)

// session is one connection that is logged in. Any number of batches are under
// way at once; receipts tell which messages the broker has.
type session struct {
	conn    net.Conn
	writing chan struct{} // holds a token while someone writes
	ended   chan struct{} // closed when nothing is read any more

	mu      sync.Mutex
	broken  error
	last    uint64
	waiting map[string]slot // by receipt
}

// pending are the results of one batch, as they come in.
type pending struct {
	results  []error
	left     int
	complete chan struct{}
}

type slot struct {
	batch *pending
	at    int
}

func startSession(conn net.Conn, frames *frame.Reader) *session {
	s := &session{conn: conn, writing: make(chan struct{}, 1), ended: make(chan struct{}), waiting: map[string]slot{}}
	go s.read(frames)
	return s
}

func (s *session) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// expect prepares for n receipts.
func (s *session) expect(n int) (*pending, []string) {
	p := &pending{results: make([]error, n), left: n, complete: make(chan struct{})}
	ids := make([]string, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range ids {
		s.last++
		ids[at] = strconv.FormatUint(s.last, 10)
		s.waiting[ids[at]] = slot{p, at}
		p.results[at] = errNoReceipt
	}
	return p, ids
}

func (s *session) forget(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.waiting, id)
	}
}

// write returns how many bytes the broker may have seen. If the broker takes
// them slowly, they are still on their way after ctx has ended: half a frame
// would be the end of the connection. After an error the session is broken.
func (s *session) write(ctx context.Context, frames []byte) (int, error) {
	select {
	case s.writing <- struct{}{}:
	case <-s.ended:
		return 0, s.err()
	case <-ctx.Done():
		return 0, fmt.Errorf("wait to write: %w", context.Cause(ctx))
	}
	if err := cmp.Or(context.Cause(ctx), s.err()); err != nil {
		<-s.writing
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	go func() {
		n, err := s.conn.Write(frames)
		if err != nil {
			err = fmt.Errorf("write: %w", err)
			s.fail(err)
		}
		<-s.writing
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		return r.n, r.err
	case <-ctx.Done():
		return len(frames), nil
	}
}

var errNoReceipt = core.Classify(core.Unknown, errors.New("no receipt came in time"))

// await returns the results when there are all, or there will be no more.
func (s *session) await(ctx context.Context, p *pending) []error {
	select {
	case <-p.complete:
	case <-ctx.Done():
	case <-s.ended:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := append([]error(nil), p.results...)
	for i, err := range results {
		if errors.Is(err, errNoReceipt) && s.broken != nil {
			results[i] = core.Classify(core.Unknown, fmt.Errorf("no receipt came: %w", s.broken))
		}
	}
	return results
}

// read hands out receipts until the connection ends.
func (s *session) read(frames *frame.Reader) {
	defer close(s.ended)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(silence)) // Read reports what is wrong with the connection
		answer, err := frames.Read()
		switch {
		case err != nil:
			s.fail(fmt.Errorf("read: %w", err))
			return
		case answer == nil: // a heartbeat
		case answer.Command == frame.RECEIPT:
			s.settle(answer.Header.Get(frame.ReceiptId), nil)
		case answer.Command == frame.ERROR && answer.Header.Get(frame.ReceiptId) != "":
			s.settle(answer.Header.Get(frame.ReceiptId), refused(answer.Header.Get(frame.Message)))
		default:
			s.fail(fmt.Errorf("the broker says %s: %s", answer.Command, answer.Header.Get(frame.Message)))
			return
		}
	}
}

// refused is why the broker has not taken a message.
func refused(reason string) error {
	class := core.Retry
	if strings.Contains(reason, "not authorized") {
		class = core.TopicBlocked
	}
	return core.Classify(class, errors.New(reason))
}

func (s *session) settle(receipt string, result error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.waiting[receipt]
	if !ok {
		return // given up
	}
	delete(s.waiting, receipt)
	place.batch.results[place.at] = result
	if place.batch.left--; place.batch.left == 0 {
		close(place.batch.complete)
	}
}

// fail ends the session; the first reason counts.
func (s *session) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = reason
	}
	s.conn.Close()
}
