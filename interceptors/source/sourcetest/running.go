package sourcetest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// Running is a source at work.
type Running struct {
	Ended  <-chan struct{}
	Err    error // of Run, when Ended is closed
	cancel context.CancelFunc
}

// Start calls a source's Run until the test ends, at the latest.
func Start(t testing.TB, run func(context.Context) error) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r := &Running{Ended: ended, cancel: cancel}
	go func() {
		defer close(ended)
		r.Err = run(ctx)
	}()
	t.Cleanup(func() { _ = r.Stop() }) // who wants to know has asked
	return r
}

// Stop ends the source and returns what Run returned.
func (r *Running) Stop() error {
	r.cancel()
	<-r.Ended
	return r.Err
}

// Cable is a network that can be cut. The zero value is whole.
type Cable struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

// Dial connects, unless the cable is cut.
func (c *Cable) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("cable is cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// Sever ends all connections, and lets no more be made if it is for good.
func (c *Cable) Sever(forGood bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = forGood
	for _, conn := range c.conns {
		conn.Close()
	}
}
