package kafka

import (
	"context"
	"errors"
	"sync"
	"time"
)

// client is what all connections of a sink share: the settings, and the end.
type client struct {
	settings
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

var errClosed = errors.New("sink is closed")

// closeTimeout bounds how long Close waits for goroutines that only a system
// call that does not return could hold up.
const closeTimeout = 5 * time.Second

func newClient(s settings) *client {
	c := &client{settings: s}
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
