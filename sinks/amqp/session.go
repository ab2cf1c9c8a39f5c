package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

var errSilent = errors.New("the broker does not answer")

// session is one connection and its channels.
type session struct {
	connection  *amqp.Connection
	openTimeout time.Duration
	free        chan struct{} // a token for each channel that may be in use
	opening     chan struct{} // held by who opens a channel, so that at most one can hang
	ended       chan struct{} // closed when the connection has ended

	mu     sync.Mutex
	idle   []*publisher    // the last is the one to use next
	proven map[string]bool // exchanges that have taken a message
	hold   string          // why the broker holds publishers back; empty: it does not
	cause  error           // of the end
}

func newSession(connection *amqp.Connection, settings *settings) *session {
	s := &session{
		connection: connection, openTimeout: settings.cluster.DialTimeout,
		free: make(chan struct{}, settings.channels), opening: make(chan struct{}, 1), ended: make(chan struct{}),
		proven: map[string]bool{},
	}
	for range settings.channels {
		s.free <- struct{}{}
	}
	closes := connection.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := connection.NotifyBlocked(make(chan amqp091.Blocking, 8))
	go s.watch(closes, blocks)
	return s
}

// watch follows what the broker says of the connection until it ends.
func (s *session) watch(closes <-chan *amqp091.Error, blocks <-chan amqp091.Blocking) {
	defer close(s.ended)
	defer s.connection.Cut()
	for {
		select {
		case b, ok := <-blocks:
			if !ok {
				blocks = nil
				continue
			}
			s.setHold(b)
		case reason := <-closes: // nil: closed by us
			if reason != nil {
				s.setCause(reason)
			}
			return
		}
	}
}

// setCause notes why the connection ends, if nobody has.
func (s *session) setCause(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
	}
}

func (s *session) setHold(b amqp091.Blocking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = ""
	if b.Active {
		s.hold = "the broker blocks publishers: " + b.Reason
	}
}

// held returns an error of class Blocked while the broker wants nothing to be
// published. What is published all the same hangs, and heartbeats with it.
func (s *session) held() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == "" {
		return nil
	}
	return core.Classify(core.Blocked, errors.New(s.hold))
}

func (s *session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.connection.IsClosed()
	}
}

// why is the cause of the end.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return fmt.Errorf("connection to %s has ended", s.connection.Addr)
	}
	return fmt.Errorf("connection to %s has ended: %w", s.connection.Addr, s.cause)
}

// kill cuts the connection.
func (s *session) kill(cause error) {
	s.setCause(cause)
	s.connection.Cut()
}

// close ends the connection, and waits until it has ended.
func (s *session) close() {
	s.setCause(errClosed)
	s.connection.Close(nil)
	<-s.ended
}

// publisher returns a channel for the caller alone, until release or discard.
func (s *session) publisher(ctx context.Context) (*publisher, error) {
	select {
	case <-s.free:
	case <-s.ended:
		return nil, s.why()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a channel: %w", context.Cause(ctx))
	}
	if p := s.takeIdle(); p != nil {
		return p, nil
	}
	p, err := s.open(ctx)
	if err != nil {
		s.free <- struct{}{}
		return nil, err
	}
	return p, nil
}

func (s *session) takeIdle() *publisher {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		p := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if !p.channel.IsClosed() {
			return p
		}
	}
	return nil
}

// release gives a channel back on which nothing is under way.
func (s *session) release(p *publisher) {
	if !p.channel.IsClosed() {
		s.mu.Lock()
		s.idle = append(s.idle, p)
		s.mu.Unlock()
	}
	s.free <- struct{}{}
}

// discard gives a channel back on which confirms are outstanding. The idle ones
// go too, so that the next message is not published before the broker has
// answered something.
func (s *session) discard(p *publisher) {
	s.mu.Lock()
	dropped := slices.Concat(s.idle, []*publisher{p})
	s.idle = nil
	s.mu.Unlock()
	go func() {
		for _, p := range dropped {
			_ = p.channel.Close() // it is of no use any more, however it ends
		}
	}()
	s.free <- struct{}{}
}

// open opens a channel. A broker that does not answer in time has lost the
// connection.
func (s *session) open(ctx context.Context) (*publisher, error) {
	select {
	case s.opening <- struct{}{}:
	case <-s.ended:
		return nil, s.why()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a channel: %w", context.Cause(ctx))
	}
	type opened struct {
		p   *publisher
		err error
	}
	result := make(chan opened, 1)
	go func() {
		defer func() { <-s.opening }()
		cut := time.AfterFunc(s.openTimeout, func() { s.kill(errSilent) })
		defer cut.Stop()
		p, err := newPublisher(s.connection.Connection)
		result <- opened{p, err}
	}()
	select {
	case r := <-result:
		if r.err != nil {
			return nil, fmt.Errorf("open a channel: %w", r.err)
		}
		return r.p, nil
	case <-ctx.Done():
		go func() { // it is still to come, and another's then
			if r := <-result; r.err == nil {
				_ = r.p.channel.Close()
			}
		}()
		return nil, fmt.Errorf("open a channel: %w", context.Cause(ctx))
	}
}

// ping makes the broker answer.
func (s *session) ping(ctx context.Context) error {
	p, err := s.open(ctx)
	if err == nil {
		go p.channel.Close()
	}
	return err
}

// fits reports whether the properties of m fit into a frame, which this broker may
// want smaller than others. The error is of class Permanent.
func (s *session) fits(m *outgoing) error {
	if frame := s.connection.Config.FrameSize; frame > 0 && m.properties > frame-frameOverhead {
		return core.Classify(core.Permanent, tooLarge("headers", "are larger than the broker's frame size, %d bytes", frame))
	}
	return nil
}

// isProven reports whether exchange has taken a message on this connection.
func (s *session) isProven(exchange string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proven[exchange]
}

func (s *session) prove(exchange string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven[exchange] = true
}

// doubt forgets what is known of exchanges: one of them closed a channel.
func (s *session) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.proven)
}
