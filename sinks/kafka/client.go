package kafka

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// client is what all connections of a sink share: the settings, and the end.
type client struct {
	settings
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	attempts map[string]*attempt // to connect, by address: under way, or failed a while ago
	group    sync.WaitGroup
}

// attempt is somebody's try to connect to a broker. Whoever else wants a
// connection to it waits for the outcome: what fails for one fails for all, also
// for those who come a moment later.
type attempt struct {
	done chan struct{}
	// Set when done is closed. No err, and not well: whoever tried has given up.
	well  bool
	err   error
	ended time.Time
}

var errClosed = errors.New("sink is closed")

// closeTimeout bounds how long Close waits for goroutines that only a system
// call that does not return could hold up.
const closeTimeout = 5 * time.Second

func newClient(s settings) *client {
	c := &client{settings: s, attempts: make(map[string]*attempt)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start runs work in a goroutine that close joins, or returns false if that
// has begun.
func (c *client) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.group.Go(work)
	return true
}

// attempt returns the attempt at an address that is under way or has just failed,
// or a new one, which the caller has to make and to conclude.
func (c *client) attempt(address string) (a *attempt, ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.attempts[address]; a != nil && (a.err == nil || time.Since(a.ended) < connectPause) {
		return a, false
	}
	forgotten := time.Now().Add(-c.questionTimeout())
	maps.DeleteFunc(c.attempts, func(_ string, a *attempt) bool { return a.err != nil && a.ended.Before(forgotten) })
	a = &attempt{done: make(chan struct{})}
	c.attempts[address] = a
	return a, true
}

// questionTimeout bounds how long a question about topics is under way.
func (c *client) questionTimeout() time.Duration { return c.DialTimeout + c.RequestTimeout }

// conclude tells those who wait, and for a moment those who come, how a ended.
func (c *client) conclude(address string, a *attempt, well bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.well, a.err, a.ended = well, err, time.Now()
	if err == nil {
		delete(c.attempts, address)
	}
	close(a.done)
}

// unreachable returns why an address could not be connected to, if the last attempt
// has failed, and not before since. It goes back as far as a question may last.
func (c *client) unreachable(address string, since time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.attempts[address]; a != nil && a.err != nil && !a.ended.Before(since) {
		return a.err
	}
	return nil
}

// close ends all connections and joins all goroutines.
func (c *client) close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	joined := make(chan struct{})
	go func() { c.group.Wait(); close(joined) }()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-joined:
		return nil
	case <-timer.C:
		return errors.New("connections did not end in time")
	}
}
