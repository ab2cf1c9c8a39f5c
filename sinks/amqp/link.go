package amqp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// Between failed rounds over the nodes a link waits, at first shortly. Until
// then every Deliver is told the last failure at once.
const (
	firstRedial = 50 * time.Millisecond
	maxRedial   = 2 * time.Second
)

// link keeps one connection: it dials when the connection is wanted and not
// there, once at a time for all who wait.
type link struct {
	sink   *Sink
	dialer *amqp.Dialer

	mu       sync.Mutex
	current  *session
	dialling chan struct{} // closed when the dial is over; nil: none is
	failures int
	failed   error // the last round over the nodes
	redialAt time.Time
	closed   bool
	work     sync.WaitGroup // dials
}

func newLink(s *Sink) *link { return &link{sink: s, dialer: s.cluster.Dialer()} }

// session returns the connection, and waits for it until ctx ends.
func (l *link) session(ctx context.Context) (*session, error) {
	for {
		session, wait, err := l.look()
		if wait == nil {
			return session, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
		}
	}
}

// look returns what is there, or what to wait for.
func (l *link) look() (*session, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.current != nil && !l.current.over():
		return l.current, nil, nil
	case l.dialling == nil && l.failed != nil && time.Now().Before(l.redialAt):
		return nil, nil, l.failed
	case l.dialling == nil:
		l.dialling = make(chan struct{})
		l.work.Go(l.dial)
	}
	return nil, l.dialling, nil
}

// dial makes one round over the nodes.
func (l *link) dial() {
	session, err := l.connect(l.sink.life)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.dialling)
	l.dialling = nil
	l.current, l.failed = session, err
	if err == nil {
		l.failures = 0
		return
	}
	wait := min(maxRedial, firstRedial<<min(l.failures, 10))
	l.failures++
	l.redialAt = time.Now().Add(wait/2 + rand.N(wait/2))
}

// connect makes one round over the nodes. Its failure is Blocked if all of them refuse us.
func (l *link) connect(ctx context.Context) (*session, error) {
	connection, err := l.dialer.Dial(ctx)
	if err == nil {
		return newSession(connection, &l.sink.settings), nil
	}
	if ctx.Err() != nil {
		return nil, errClosed
	}
	class := core.Retry
	if failed, ok := errors.AsType[*amqp.DialError](err); ok && failed.Refused {
		class = core.Blocked
	}
	return nil, core.Classify(class, err)
}

// close ends the connection and waits for a dial to end.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
	if l.current != nil {
		l.current.close()
	}
}
