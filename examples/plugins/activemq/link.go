package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/delaybridge/delaybridge/core"
)

// link is a place for one connection, which is made when it is needed and made
// again when it has broken.
type link struct {
	settings
	life context.Context // ends with Close
	end  context.CancelFunc

	mu      sync.Mutex
	session *session
	attempt *attempt // under way
}

// attempt is a connection in the making. It continues when those who wait for it
// have gone: else many impatient ones would bury a slow broker in connections.
type attempt struct {
	done    chan struct{}
	session *session
	err     error
}

var errClosed = errors.New("ActiveMQ sink is closed")

func newLink(s settings) *link {
	l := &link{settings: s}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.Err() == nil && l.session != nil && l.session.err() == nil
}

// connected returns a session that seems to work, and connects if there is none.
func (l *link) connected(ctx context.Context) (*session, error) {
	s, a := l.begin()
	switch {
	case s != nil:
		return s, nil
	case a == nil:
		return nil, errClosed
	}
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
	}
}

// begin returns the session or the attempt at one; neither after Close.
func (l *link) begin() (*session, *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.life.Err() != nil:
		return nil, nil
	case l.session != nil && l.session.err() == nil:
		return l.session, nil
	case l.attempt == nil:
		l.attempt = &attempt{done: make(chan struct{})}
		go l.try(l.attempt)
	}
	return nil, l.attempt
}

func (l *link) try(a *attempt) {
	defer close(a.done)
	a.session, a.err = l.connect()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempt = nil
	if a.err == nil {
		l.session = a.session
	}
}

func (l *link) connect() (*session, error) {
	ctx, cancel := context.WithTimeout(l.life, l.dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	frames, err := l.greet(ctx, conn)
	if !interrupt() && err == nil {
		err = fmt.Errorf("connect: %w", context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return startSession(frames.conn, frames.reader), nil
}

// greeted is a connection that is logged in.
type greeted struct {
	conn   net.Conn
	reader *frame.Reader
}

func (l *link) greet(ctx context.Context, conn net.Conn) (greeted, error) {
	if l.tls != nil {
		secured := tls.Client(conn, l.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
				err = core.Classify(core.Blocked, err)
			}
			return greeted{}, fmt.Errorf("connect with TLS: %w", err)
		}
		conn = secured
	}
	reader, err := login(conn, l.config)
	return greeted{conn, reader}, err
}

// heartbeat is how often the broker must say something. What it does not say
// within silence is dead.
const (
	heartbeat = 4 * time.Second
	silence   = 3 * heartbeat
)

// login returns what is to be read from. The CONNECT frame is not escaped, other than the rest.
func login(conn net.Conn, c config) (*frame.Reader, error) {
	host, _, _ := net.SplitHostPort(c.Address) // it was checked
	connect := fmt.Sprintf("CONNECT\naccept-version:1.2\nhost:%s\nheart-beat:0,%d\n", host, heartbeat.Milliseconds())
	if c.Login != "" || c.Passcode != "" {
		connect += fmt.Sprintf("login:%s\npasscode:%s\n", c.Login, c.Passcode)
	}
	if _, err := conn.Write([]byte(connect + "\n\x00")); err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	frames := frame.NewReaderSize(conn, 64<<10)
	for {
		answer, err := frames.Read()
		switch {
		case err != nil:
			return nil, fmt.Errorf("log in: %w", err)
		case answer == nil: // a heartbeat
		case answer.Command == frame.CONNECTED:
			return frames, nil
		default:
			return nil, fmt.Errorf("log in: %w", refusedLogin(answer.Header.Get(frame.Message)))
		}
	}
}

func refusedLogin(reason string) error {
	class := core.Retry
	for _, sign := range []string{"password", "not authorized", "authentication", "credential", "certificate"} {
		if strings.Contains(strings.ToLower(reason), sign) {
			class = core.Blocked
		}
	}
	return core.Classify(class, errors.New(reason))
}

// send sends the messages and returns a result for each, or why there is no
// connection.
func (l *link) send(ctx context.Context, messages []*core.Message) ([]error, error) {
	s, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	p, ids := s.expect(len(messages))
	defer s.forget(ids)
	var frames bytes.Buffer
	ends := make([]int, len(messages))
	for i, m := range messages {
		l.encode(&frames, m, ids[i])
		ends[i] = frames.Len()
	}
	written, err := s.write(ctx, frames.Bytes())
	if err != nil && written == 0 {
		return nil, err
	}
	results := s.await(ctx, p)
	for i, end := range ends {
		if end > written { // the broker does nothing with half a frame
			results[i] = err
		}
	}
	return results, nil
}

// close ends what there is and waits for its goroutines.
func (l *link) close() {
	l.end()
	l.mu.Lock()
	a := l.attempt
	l.mu.Unlock()
	if a != nil {
		<-a.done
	}
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	if s != nil {
		s.fail(errClosed)
		<-s.ended
	}
}
